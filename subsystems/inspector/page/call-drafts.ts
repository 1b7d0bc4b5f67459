/** Unfinished calls: a half-filled form and the result of its last call, by actor and method. */
import type { CallAnswer } from './api.ts';
import type { Parameter } from './candid/did-types.ts';
import { candidText } from './candid/candid-text.ts';
import { decodeForm } from './candid/decode-form.ts';
import { encodeForm, type FormArgument, type Problems } from './candid/encode-form.ts';
import { emptyValues, type FormValue } from './candid/form-value.ts';
import { messageOf } from './messages.ts';
import type { SharedCall } from './place.ts';
import { recall, remember } from './storage.ts';

const NOT_WAITED = 'nobody waits for this call any more; it goes on, and its end will be in “History”';
/** Drafts keep their answers, which may be large. */
const DRAFTS_MAX = 30;

/** Entry of `sessionStorage` with what was typed. */
const STORED_KEY = 'svc-inspector-drafts';
/** Longer drafts are not kept over a reload; all together stay below what browsers keep for a page. */
const STORED_CHARACTERS_MAX = 200_000;

/** Forgets what was typed, for whoever logs in next. */
export function forgetDrafts(): void {
  remember('sessionStorage', STORED_KEY, undefined);
}

/** Input of a draft, without answers. */
type StoredDraft = Pick<CallDraft, 'values' | 'isTouched' | 'isJson' | 'json' | 'wantsLossless' | 'caller' | 'hex'>;

/** A call of one method as shown on the screen; changed in place. */
export class CallDraft {
  /** Values of the form; undefined: there is only JSON, and `formProblem` may say why. */
  values: readonly FormValue[] | undefined;
  readonly formProblem: string | undefined;
  /** True if the user has changed the form. */
  isTouched = false;
  isJson: boolean;
  json = '[]';
  wantsLossless = false;
  caller = '';
  callerProblem: string | undefined;
  /** Bytes of the argument in hex, in place of JSON; undefined: JSON. */
  hex: string | undefined;
  isRunning = false;
  answer: CallAnswer | undefined;
  error: unknown;
  problems: Problems = new Map();
  /** Problem of `json` or `hex`. */
  jsonProblem: string | undefined;
  /** Ends the waiting for the answer. */
  #stop: AbortController | undefined;
  /** When the call that is under way was sent, as `performance.now()` tells. */
  startedMs = 0;
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
    if (this.isJson || this.values === undefined) {
      this.jsonProblem = jsonProblemOf(this.json);
      return this.jsonProblem === undefined ? this.json : undefined;
    }
    const json = encodeForm(this.#arguments(parameters), isLossless, this.problems);
    return this.problems.size === 0 ? json : undefined;
  }

  /** Returns the arguments as Candid text; undefined, with the problems, if they do not fit their types. */
  writeCandid(parameters: readonly Parameter[], isLossless: boolean): string | undefined {
    if (this.write(parameters, isLossless) === undefined) return undefined;
    if (this.isJson && !this.#read(parameters, isLossless)) return undefined;
    const problems: Problems = new Map();
    encodeForm(this.#arguments(parameters), isLossless, problems);
    // Gaps of the form that have become `null` in its JSON.
    [this.jsonProblem] = problems.values();
    return this.jsonProblem === undefined ? candidText(this.#arguments(parameters)) : undefined;
  }

  /** Looks again at a form that was found wrong: problems go when they are corrected. */
  recheck(parameters: readonly Parameter[], isLossless: boolean): void {
    if (this.problems.size > 0 || this.jsonProblem !== undefined) this.write(parameters, isLossless);
  }

  /**
   * Switches from the form to JSON or back, and converts what is there. A form with problems stays visible, unless the
   * user has not begun it: missing values become `null` then. JSON that does not fit the types stays, with its problem.
   */
  showJson(isJson: boolean, parameters: readonly Parameter[], isLossless: boolean): void {
    if (isJson) {
      const json = this.isTouched ? this.write(parameters, isLossless) : this.#template(parameters, isLossless);
      if (json === undefined) return;
      this.json = this.#jsonOfForm = json;
    } else if (this.json !== this.#jsonOfForm && !this.#read(parameters, isLossless)) return;
    this.jsonProblem = undefined;
    this.isJson = isJson;
  }

  /** Chooses the encoding, and converts JSON that is there; what does not fit the types stays, with its problem. */
  setLossless(isLossless: boolean, parameters: readonly Parameter[]): void {
    if (this.isJson && this.values !== undefined) {
      if (!this.#read(parameters, this.wantsLossless)) return;
      const json = encodeForm(this.#arguments(parameters), isLossless, new Map());
      this.json = this.#jsonOfForm = json;
    }
    this.wantsLossless = isLossless;
  }

  /** Reads the JSON into the form; returns false, with the problem, if it does not fit. */
  #read(parameters: readonly Parameter[], isLossless: boolean): boolean {
    try {
      const types = parameters.map(({ type }) => type);
      this.values = decodeForm(types, this.json, isLossless);
      this.jsonProblem = undefined;
      this.isTouched = true;
      return true;
    } catch (error) {
      this.jsonProblem = messageOf(error);
      return false;
    }
  }

  /** Takes a call over from an address or a saved one: into the form where it fits, else as it is. */
  take({ args, hex, lossless = false, caller = '' }: SharedCall, parameters: readonly Parameter[]): void {
    this.caller = caller;
    this.wantsLossless = lossless;
    this.hex = hex;
    if (args === undefined) return;
    this.json = args;
    this.isJson = this.values === undefined || !this.#read(parameters, lossless);
  }

  /** Returns what a reload keeps. */
  stored(): StoredDraft {
    const { values, isTouched, isJson, json, wantsLossless, caller, hex } = this;
    return { values, isTouched, isJson, json, wantsLossless, caller, hex };
  }

  /** Takes what a reload has kept. */
  restore(stored: StoredDraft): void {
    Object.assign(this, stored);
  }

  /** Makes the call, and keeps the result. Only one call runs at a time, so that the answer is that of the last one. */
  async run(call: (signal: AbortSignal) => Promise<CallAnswer>): Promise<void> {
    if (this.isRunning) return;
    this.isRunning = true;
    this.error = undefined;
    this.startedMs = performance.now();
    const stop = (this.#stop = new AbortController());
    this.changed();
    try {
      this.answer = await call(stop.signal);
    } catch (failure) {
      this.answer = undefined;
      this.error = stop.signal.aborted ? new Error(NOT_WAITED) : failure;
    }
    this.isRunning = false;
    this.changed();
  }

  /** Ends the waiting; the message goes on. */
  stopWaiting(): void {
    this.#stop?.abort();
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

/** Drafts that were looked at last; what was typed outlives a reload of this tab. */
export class CallDrafts {
  readonly #drafts = new Map<string, CallDraft>();
  readonly #stored: Map<string, string>;

  constructor() {
    this.#stored = new Map(parsedOr([], recall('sessionStorage', STORED_KEY)) as [string, string][]);
  }

  /** Returns the draft of this key, or a new one for `parameters`. */
  of(key: string, parameters: readonly Parameter[] | undefined): CallDraft {
    const draft = this.#drafts.get(key) ?? this.#restored(key, parameters);
    this.#drafts.delete(key);
    this.#drafts.set(key, draft);
    for (const oldest of this.#drafts.keys()) {
      if (this.#drafts.size <= DRAFTS_MAX) break;
      this.#drafts.delete(oldest);
    }
    return draft;
  }

  #restored(key: string, parameters: readonly Parameter[] | undefined): CallDraft {
    const draft = new CallDraft(parameters);
    const stored = parsedOr(undefined, this.#stored.get(key)) as StoredDraft | undefined;
    if (stored !== undefined) draft.restore(stored);
    return draft;
  }

  /** Keeps what was typed for after a reload; the key of a draft has its types, so it fits then. */
  store(): void {
    for (const [key, draft] of this.#drafts) {
      const text = JSON.stringify(draft.stored(), (_name, value: unknown) =>
        value instanceof Map ? { [MAP_KEY]: [...(value as Map<unknown, unknown>)] } : value,
      );
      if (text.length <= STORED_CHARACTERS_MAX) this.#stored.set(key, text);
      else this.#stored.delete(key);
    }
    const newest = [...this.#stored].slice(-DRAFTS_MAX);
    remember('sessionStorage', STORED_KEY, JSON.stringify(newest));
  }
}

/** Marks a map in JSON; no field of a form has this name. */
const MAP_KEY = 'map of a variant';

function parsedOr(otherwise: unknown, json: string | undefined): unknown {
  if (json === undefined) return otherwise;
  try {
    return JSON.parse(json, (_name, value: unknown) =>
      typeof value === 'object' && value !== null && MAP_KEY in value
        ? new Map((value as { [MAP_KEY]: [unknown, unknown][] })[MAP_KEY])
        : value,
    ) as unknown;
  } catch {
    return otherwise;
  }
}

/** Longer arguments are for the server to read. */
const CHECKED_CHARACTERS_MAX = 1_000_000;

/** Returns what is wrong with arguments, as far as no types are needed to see it. */
function jsonProblemOf(json: string): string | undefined {
  if (json.trim() === '') return 'type a JSON array, [] for no arguments';
  if (!json.trimStart().startsWith('[')) return 'expected a JSON array of arguments: [ … ]';
  if (json.length > CHECKED_CHARACTERS_MAX) return undefined;
  try {
    JSON.parse(json);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
