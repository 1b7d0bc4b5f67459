import type { TargetedKeyboardEvent } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { Actor, Api, CallRequest } from './api.ts';
import { Answer, Elapsed } from './call-answer.tsx';
import { CallCopies } from './call-copies.tsx';
import type { CallDraft } from './call-drafts.ts';
import type { CallableMethod } from './callable-methods.ts';
import type { DidMethod } from './candid/did-types.ts';
import { principalProblem } from './candid/principal.ts';
import { typeText } from './candid/type-text.ts';
import { bytesOfHex } from './hex.ts';
import { FormArguments } from './form-arguments.tsx';
import { useRedraw } from './hooks.ts';
import { inertText, shortText } from './inert-text.ts';
import { LiveQuery } from './live-query.tsx';
import { Failure } from './pieces.tsx';
import { LackHint } from './lack.tsx';
import { useLacking, useRights } from './use-rights.ts';

interface MethodCallProps {
  readonly actor: Actor;
  readonly api: Api;
  readonly hasToken: boolean;
  readonly method: CallableMethod;
  readonly draft: CallDraft;
}

/** The form of one method, and the result of its last call. */
export function MethodCall({ actor, api, hasToken, method, draft }: MethodCallProps) {
  const redraw = useRedraw();
  // An answer may arrive after the form was left and opened again.
  draft.changed = redraw;
  const form = useRef<HTMLFormElement>(null);
  /** Query that is watched. */
  const [watched, setWatched] = useState<CallRequest | undefined>(undefined);
  const isLossless = draft.wantsLossless || method.described === undefined;
  const asQuery = useAsQuery(actor, method);
  const { claims } = useRights();

  /** Returns undefined if the form cannot be encoded: its problems are shown, and the first one gets the focus. */
  const write = (): CallRequest | undefined => shown(requestOf(actor, { method, draft, isLossless, asQuery, claims }));
  const shown = <T,>(written: T | undefined): T | undefined => {
    redraw();
    if (written === undefined) focusProblem();
    return written;
  };
  const focusProblem = (): void => {
    // Waits for the drawing.
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
  };
  const call = (): void => {
    if (draft.isRunning) return;
    const request = write();
    if (request === undefined) return;
    const bytes = request.hex === undefined ? undefined : bytesOfHex(request.hex);
    void draft.run((signal) => (bytes === undefined ? api.call(request, signal) : api.callRaw(request, bytes, signal)));
  };
  return (
    <section class="method-call" aria-label={`Call ${inertText(method.name)}`}>
      <h3 class="mono">{inertText(shortText(method.name, 120))}</h3>
      {method.described !== undefined && <Description kind={method.kind} described={method.described} />}
      <form
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          call();
        }}
        onKeyDown={submitOnControlEnter}
      >
        {draft.formProblem !== undefined && <p class="notice">{draft.formProblem}</p>}
        <Arguments described={method.described} draft={draft} isLossless={isLossless} changed={redraw} />
        <CallOptions
          draft={draft}
          described={method.described}
          isLossless={isLossless}
          changed={redraw}
          focusProblem={focusProblem}
        />
        <Buttons
          actor={actor}
          method={method}
          draft={draft}
          asQuery={asQuery}
          write={write}
          {...{ isWatched: watched !== undefined, watch: setWatched }}
        />
        <CallCopies
          method={method}
          hasToken={hasToken}
          write={write}
          writeCandid={() => shown(draft.writeCandid(method.described?.parameters ?? [], isLossless))}
        />
      </form>
      {watched !== undefined && <LiveQuery api={api} request={watched} close={() => setWatched(undefined)} />}
      <Outcome draft={draft} actor={actor} api={api} />
    </section>
  );
}

function Outcome({ draft, actor, api }: Pick<MethodCallProps, 'draft' | 'actor' | 'api'>) {
  return (
    <>
      {draft.error !== undefined && <Failure error={draft.error} />}
      {draft.answer !== undefined && <Answer answer={draft.answer} actor={actor} api={api} />}
    </>
  );
}

/** Buttons that make the call or watch it. */
function Buttons({
  actor,
  method,
  draft,
  asQuery,
  write,
  isWatched,
  watch,
}: Pick<MethodCallProps, 'actor' | 'method' | 'draft'> & {
  readonly asQuery: boolean;
  readonly write: () => CallRequest | undefined;
  readonly isWatched: boolean;
  readonly watch: (request: CallRequest | undefined) => void;
}) {
  const lacking = useLacking(actor);
  const lacks = lacking(asQuery ? 'query' : 'call');
  const lacksWatch = lacking('watch');
  return (
    <div class="row">
      <button type="submit" class="primary" disabled={draft.isRunning || lacks !== undefined}>
        {draft.isRunning ? 'Waiting …' : asQuery ? 'Query' : 'Call'}
      </button>
      <LackHint scope={lacks} />
      {draft.isRunning && (
        <>
          <Elapsed startedMs={draft.startedMs} />
          <button type="button" onClick={() => draft.stopWaiting()}>
            Do not wait
          </button>
        </>
      )}
      {method.kind === 'query' && (
        <button
          type="button"
          aria-pressed={isWatched}
          disabled={lacksWatch !== undefined}
          title={lacksWatch === undefined ? undefined : `This token lacks the scope ${inertText(lacksWatch)}.`}
          onClick={() => watch(isWatched ? undefined : write())}
        >
          Watch
        </button>
      )}
      <span class="hint keys">Ctrl+Enter calls</span>
    </div>
  );
}

/** Returns true if the method is asked by a query: a call answers it, too, for a token that may do no more. */
function useAsQuery(actor: Actor, method: CallableMethod): boolean {
  const lacking = useLacking(actor);
  const isCalled = method.kind === 'query' && lacking('query') !== undefined && lacking('call') === undefined;
  return isQuery(method) && !isCalled;
}

function isQuery({ kind }: CallableMethod): boolean {
  return kind === 'query' || kind === 'composite_query';
}

/** A call as it was chosen. */
interface Choice {
  readonly method: CallableMethod;
  readonly draft: CallDraft;
  readonly isLossless: boolean;
  readonly asQuery: boolean;
  /** True if the token may claim a caller. */
  readonly claims: boolean;
}

/** Returns undefined if the form cannot be encoded; the draft has its problems. */
function requestOf(actor: Actor, { method, draft, isLossless, asQuery, claims }: Choice): CallRequest | undefined {
  const caller = claims ? draft.caller.trim() : '';
  draft.callerProblem = caller === '' ? undefined : principalProblem(caller);
  const { hex } = draft;
  draft.jsonProblem = hex === undefined || bytesOfHex(hex) !== undefined ? undefined : 'expected pairs of hex digits';
  const json = hex === undefined ? draft.write(method.described?.parameters ?? [], isLossless) : '';
  if (json === undefined || draft.callerProblem !== undefined || draft.jsonProblem !== undefined) return undefined;
  const request = { actor: actor.name, method: method.name, isQuery: asQuery, isLossless, caller, json };
  return hex === undefined ? request : { ...request, hex };
}

function submitOnControlEnter(event: TargetedKeyboardEvent<HTMLFormElement>): void {
  if (event.key !== 'Enter') return;
  const isCall = event.ctrlKey || event.metaKey;
  // A key that is held down makes one call, even in a field where Enter alone submits.
  if (isCall || (event.repeat && event.target instanceof HTMLInputElement)) event.preventDefault();
  if (isCall && !event.repeat) event.currentTarget.requestSubmit();
}

/** The interface's description of a method. */
function Description({ kind, described }: { readonly kind: string; readonly described: DidMethod }) {
  const { parameters, results, docs } = described;
  const annotation = kind === 'update' || described.kind === 'update' ? undefined : described.kind;
  return (
    <>
      <p class="signature mono">{inertText(typeText({ kind: 'func', parameters, results, annotation }))}</p>
      {docs !== '' && <p class="docs">{inertText(docs, { hasLines: true })}</p>}
    </>
  );
}

/** The caller, and the form in which arguments are entered and sent. */
function CallOptions({
  draft,
  described,
  isLossless,
  changed,
  focusProblem,
}: {
  readonly draft: CallDraft;
  readonly described: DidMethod | undefined;
  readonly isLossless: boolean;
  readonly changed: () => void;
  readonly focusProblem: () => void;
}) {
  return (
    <div class="options">
      <Caller draft={draft} changed={changed} />
      <label class="check">
        <input
          type="checkbox"
          checked={isLossless}
          disabled={described === undefined}
          onChange={(event) => {
            draft.setLossless(event.currentTarget.checked, described?.parameters ?? []);
            event.currentTarget.checked = draft.wantsLossless;
            changed();
          }}
        />
        Lossless
      </label>
      {described === undefined && (
        <label class="check">
          <input
            type="checkbox"
            checked={draft.hex !== undefined}
            onChange={(event) => {
              draft.hex = event.currentTarget.checked ? EMPTY_ARGUMENTS_HEX : undefined;
              draft.jsonProblem = undefined;
              changed();
            }}
          />
          Raw bytes
        </label>
      )}
      {draft.values !== undefined && (
        <label class="check">
          <input
            type="checkbox"
            checked={draft.isJson}
            onChange={(event) => {
              draft.showJson(event.currentTarget.checked, described?.parameters ?? [], isLossless);
              event.currentTarget.checked = draft.isJson;
              changed();
              if (draft.problems.size > 0 || draft.jsonProblem !== undefined) focusProblem();
            }}
          />
          As JSON
        </label>
      )}
    </div>
  );
}

function Caller({ draft, changed }: { readonly draft: CallDraft; readonly changed: () => void }) {
  const { claims, caller: own } = useRights();
  if (!claims) {
    return (
      <p class="hint grow wrap">
        Calls as <span class="mono">{own ?? 'anonymous (2vxsx-fae)'}</span>
      </p>
    );
  }
  return (
    <>
      <label class="caller">
        <span>Caller</span>
        <input
          placeholder="anonymous (2vxsx-fae)"
          spellcheck={false}
          autocomplete="off"
          pattern="\s*[a-z0-9\-]*\s*"
          title="A principal as text; it is sent as x-caller"
          aria-invalid={draft.callerProblem !== undefined}
          aria-describedby="caller-problem"
          value={draft.caller}
          onInput={(event) => {
            draft.caller = event.currentTarget.value;
            const caller = draft.caller.trim();
            if (draft.callerProblem !== undefined) {
              draft.callerProblem = caller === '' ? undefined : principalProblem(caller);
            }
            changed();
          }}
        />
      </label>
      <p class="problem" id="caller-problem" hidden={draft.callerProblem === undefined}>
        {draft.callerProblem}
      </p>
    </>
  );
}

interface ArgumentsProps {
  readonly described: DidMethod | undefined;
  readonly draft: CallDraft;
  readonly isLossless: boolean;
  readonly changed: () => void;
}

/** The arguments in the form in which they are entered. */
function Arguments(props: ArgumentsProps) {
  const { draft } = props;
  if (draft.hex !== undefined) return <HexArguments {...props} hex={draft.hex} />;
  return draft.isJson ? (
    <JsonArguments {...props} />
  ) : (
    <FormArguments {...props} parameters={props.described?.parameters ?? []} />
  );
}

function JsonArguments({
  draft,
  isLossless,
  changed,
}: {
  readonly draft: CallDraft;
  readonly isLossless: boolean;
  readonly changed: () => void;
}) {
  return (
    <div class="field">
      <label class="label" for="arguments">
        <span class="field-name">Arguments</span>
        <span class="type">a JSON array{isLossless ? ', lossless' : ''}</span>
      </label>
      <textarea
        id="arguments"
        class="mono"
        rows={4}
        spellcheck={false}
        aria-invalid={draft.jsonProblem !== undefined}
        aria-describedby="arguments-problem"
        value={draft.json}
        onInput={(event) => {
          draft.json = event.currentTarget.value;
          draft.recheck([], isLossless);
          changed();
        }}
      />
      <ArgumentsProblem problem={draft.jsonProblem} />
    </div>
  );
}

function ArgumentsProblem({ problem }: { readonly problem: string | undefined }) {
  return (
    <p class="problem" id="arguments-problem">
      {problem === undefined ? '' : inertText(shortText(problem, 400))}
    </p>
  );
}

/** `DIDL`, no types and no values: the empty list of arguments. */
const EMPTY_ARGUMENTS_HEX = '4449444c0000';

function HexArguments({
  draft,
  hex,
  changed,
}: {
  readonly draft: CallDraft;
  readonly hex: string;
  readonly changed: () => void;
}) {
  return (
    <div class="field">
      <label class="label" for="arguments">
        <span class="field-name">Arguments</span>
        <span class="type">bytes of Candid in hex</span>
      </label>
      <textarea
        id="arguments"
        class="mono"
        rows={3}
        spellcheck={false}
        aria-invalid={draft.jsonProblem !== undefined}
        aria-describedby="arguments-problem"
        value={hex}
        onInput={(event) => {
          draft.hex = event.currentTarget.value;
          if (draft.jsonProblem !== undefined && bytesOfHex(draft.hex) !== undefined) draft.jsonProblem = undefined;
          changed();
        }}
      />
      <ArgumentsProblem problem={draft.jsonProblem} />
    </div>
  );
}
