/** What somebody has begun: a half-filled form and what came of its last call, by actor and method. */
import type { CallAnswer } from './api.ts';
import type { Parameter } from './candid/did-types.ts';
import { encodeForm, type FormArgument, type Problems } from './candid/encode-form.ts';
import { emptyValues, type FormValue } from './candid/form-value.ts';
import { messageOf } from './messages.ts';

/** Answers are kept with them, and may be large. */
const DRAFTS_MAX = 30;

/** A call of one method as it stands on the screen; changed in place. */
export class CallDraft {
  /** Undefined: there is no form, only JSON; `formProblem` may say why. */
  readonly values: readonly FormValue[] | undefined;
  readonly formProblem: string | undefined;
  /** Whether somebody has changed the form. */
  isTouched = false;
  isJson: boolean;
  json = '[]';
  wantsLossless = false;
  caller = '';
  isRunning = false;
  answer: CallAnswer | undefined;
  error: unknown;
  problems: Problems = new Map();
  /** Draws the draft where it is shown. */
  changed: () => void = () => undefined;
  /** What the form said when it became `json`. */
  #jsonOfForm: string | undefined;

  /** `parameters`: undefined where there is no description of them. */
  constructor(parameters: readonly Parameter[] | undefined) {
    try {
      this.values = parameters === undefined ? undefined : emptyValues(parameters.map(({ type }) => type));
    } catch (error) {
      this.formProblem = messageOf(error);
    }
    this.isJson = this.values === undefined;
  }

  /** The arguments; undefined, with the problems at their places, where the form cannot be written. */
  write(parameters: readonly Parameter[], isLossless: boolean): string | undefined {
    this.problems = new Map();
    if (this.isJson || this.values === undefined) return this.json;
    const json = encodeForm(this.#arguments(parameters), isLossless, this.problems);
    return this.problems.size === 0 ? json : undefined;
  }

  /**
   * From the form to JSON and back. A form with problems stays, unless nobody has begun it: what it lacks is `null` then.
   * JSON that was edited stays as long as the form does.
   */
  showJson(isJson: boolean, parameters: readonly Parameter[], isLossless: boolean): void {
    if (isJson) {
      const json = this.isTouched ? this.write(parameters, isLossless) : this.#template(parameters, isLossless);
      if (json === undefined) return;
      if (json !== this.#jsonOfForm) this.json = this.#jsonOfForm = json;
    }
    this.isJson = isJson;
  }

  /** Calls; what comes of it is kept here. One call at a time, so that the answer is that of the last one. */
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

/** Those that were looked at last. */
export class CallDrafts {
  readonly #drafts = new Map<string, CallDraft>();

  /** The draft of this key; a new one for `parameters` if there is none. */
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
