/** Unfinished calls: a half-filled form and the result of its last call, by actor and method. */
import type { CallAnswer } from './api.ts';
import type { Parameter } from './candid/did-types.ts';
import { encodeForm, type FormArgument, type Problems } from './candid/encode-form.ts';
import { emptyValues, type FormValue } from './candid/form-value.ts';
import { messageOf } from './messages.ts';

/** Drafts keep their answers, which may be large. */
const DRAFTS_MAX = 30;

/** A call of one method as shown on the screen; changed in place. */
export class CallDraft {
  /** Values of the form; undefined: there is only JSON, and `formProblem` may say why. */
  readonly values: readonly FormValue[] | undefined;
  readonly formProblem: string | undefined;
  /** True if the user has changed the form. */
  isTouched = false;
  isJson: boolean;
  json = '[]';
  wantsLossless = false;
  caller = '';
  isRunning = false;
  answer: CallAnswer | undefined;
  error: unknown;
  problems: Problems = new Map();
  /** Redraws the draft where it is shown. */
  changed: () => void = () => undefined;
  /** Text of the form when it was turned into `json`. */
  #jsonOfForm: string | undefined;

  /** `parameters` is undefined if their types are not known. */
  constructor(parameters: readonly Parameter[] | undefined) {
    try {
      this.values = parameters === undefined ? undefined : emptyValues(parameters.map(({ type }) => type));
    } catch (error) {
      this.formProblem = messageOf(error);
    }
    this.isJson = this.values === undefined;
  }

  /** Returns the arguments; if the form cannot be encoded, returns undefined and sets the problems at their places. */
  write(parameters: readonly Parameter[], isLossless: boolean): string | undefined {
    this.problems = new Map();
    if (this.isJson || this.values === undefined) return this.json;
    const json = encodeForm(this.#arguments(parameters), isLossless, this.problems);
    return this.problems.size === 0 ? json : undefined;
  }

  /**
   * Switches from the form to JSON or back. A form with problems stays visible, unless the user has not begun it:
   * missing values become `null` then. Edited JSON stays as long as the form does.
   */
  showJson(isJson: boolean, parameters: readonly Parameter[], isLossless: boolean): void {
    if (isJson) {
      const json = this.isTouched ? this.write(parameters, isLossless) : this.#template(parameters, isLossless);
      if (json === undefined) return;
      if (json !== this.#jsonOfForm) this.json = this.#jsonOfForm = json;
    }
    this.isJson = isJson;
  }

  /** Makes the call, and keeps the result. Only one call runs at a time, so that the answer is that of the last one. */
  async run(call: () => Promise<CallAnswer>): Promise<void> {
    if (this.isRunning) return;
    this.isRunning = true;
    this.error = undefined;
    this.changed();
    try {
      this.answer = await call();
    } catch (failure) {
      this.answer = undefined;
      this.error = failure;
    }
    this.isRunning = false;
    this.changed();
  }

  #template(parameters: readonly Parameter[], isLossless: boolean): string {
    return encodeForm(this.#arguments(parameters), isLossless, new Map());
  }

  #arguments(parameters: readonly Parameter[]): readonly FormArgument[] {
    return parameters.flatMap(({ type }, index) => {
      const value = this.values?.[index];
      return value === undefined ? [] : [{ type, value }];
    });
  }
}

/** Drafts that were looked at last. */
export class CallDrafts {
  readonly #drafts = new Map<string, CallDraft>();

  /** Returns the draft of this key, or a new one for `parameters`. */
  of(key: string, parameters: readonly Parameter[] | undefined): CallDraft {
    const draft = this.#drafts.get(key) ?? new CallDraft(parameters);
    this.#drafts.delete(key);
    this.#drafts.set(key, draft);
    for (const oldest of this.#drafts.keys()) {
      if (this.#drafts.size <= DRAFTS_MAX) break;
      this.#drafts.delete(oldest);
    }
    return draft;
  }
}
