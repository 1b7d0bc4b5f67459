import type { TargetedKeyboardEvent } from 'preact';
import { useRef } from 'preact/hooks';
import type { Actor, Api, CallAnswer, CallRequest } from './api.ts';
import { errorOf } from './api.ts';
import type { CallDraft } from './call-drafts.ts';
import type { CallableMethod } from './callable-methods.ts';
import type { DidMethod } from './candid/did-types.ts';
import { typeText } from './candid/type-text.ts';
import { curlCommand } from './curl.ts';
import { durationText } from './format.ts';
import { FormField } from './form.tsx';
import { useRedraw } from './hooks.ts';
import { inertText, shortText } from './inert-text.ts';
import { JsonView } from './json-view.tsx';
import { Badge, CopyButton, Failure } from './pieces.tsx';

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
  const isLossless = draft.wantsLossless || method.described === undefined;

  /** Returns undefined if the form cannot be encoded: its problems are shown, and the first one gets the focus. */
  const write = (): CallRequest | undefined => {
    const request = requestOf(actor, method, draft, isLossless);
    redraw();
    if (request === undefined) focusProblem();
    return request;
  };
  const focusProblem = (): void => {
    // Waits for the drawing.
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
  };
  const call = (): void => {
    if (draft.isRunning) return;
    const request = write();
    if (request !== undefined) void draft.run(() => api.call(request));
  };
  const curl = (): string | undefined => {
    const request = write();
    return request === undefined ? undefined : curlCommand(location.origin, request, hasToken);
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
        {draft.isJson ? (
          <JsonArguments draft={draft} isLossless={isLossless} changed={redraw} />
        ) : (
          <FormArguments described={method.described} draft={draft} changed={redraw} />
        )}
        <CallOptions
          draft={draft}
          described={method.described}
          isLossless={isLossless}
          changed={redraw}
          focusProblem={focusProblem}
        />
        <div class="row">
          <button type="submit" class="primary" disabled={draft.isRunning}>
            {draft.isRunning ? 'Waiting …' : isQuery(method) ? 'Query' : 'Call'}
          </button>
          <CopyButton text={curl} label="Copy as curl" />
          <span class="hint keys">Ctrl+Enter calls</span>
        </div>
      </form>
      {draft.error !== undefined && <Failure error={draft.error} />}
      {draft.answer !== undefined && <Answer answer={draft.answer} />}
    </section>
  );
}

function isQuery({ kind }: CallableMethod): boolean {
  return kind === 'query' || kind === 'composite_query';
}

/** Returns undefined if the form cannot be encoded; the draft has its problems. */
function requestOf(
  actor: Actor,
  method: CallableMethod,
  draft: CallDraft,
  isLossless: boolean,
): CallRequest | undefined {
  const json = draft.write(method.described?.parameters ?? [], isLossless);
  if (json === undefined) return undefined;
  const caller = draft.caller.trim();
  return { actor: actor.name, method: method.name, isQuery: isQuery(method), isLossless, caller, json };
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
      <label class="caller">
        <span>Caller</span>
        <input
          placeholder="anonymous (2vxsx-fae)"
          spellcheck={false}
          autocomplete="off"
          pattern="\s*[a-z0-9\-]*\s*"
          title="A principal as text; it is sent as x-caller"
          value={draft.caller}
          onInput={(event) => {
            draft.caller = event.currentTarget.value;
            changed();
          }}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={isLossless}
          disabled={described === undefined}
          onChange={(event) => {
            draft.wantsLossless = event.currentTarget.checked;
            changed();
          }}
        />
        Lossless
      </label>
      {draft.values !== undefined && (
        <label class="check">
          <input
            type="checkbox"
            checked={draft.isJson}
            onChange={(event) => {
              draft.showJson(event.currentTarget.checked, described?.parameters ?? [], isLossless);
              event.currentTarget.checked = draft.isJson;
              changed();
              if (draft.problems.size > 0) focusProblem();
            }}
          />
          As JSON
        </label>
      )}
    </div>
  );
}

function FormArguments({
  described,
  draft,
  changed,
}: {
  readonly described: DidMethod | undefined;
  readonly draft: CallDraft;
  readonly changed: () => void;
}) {
  const parameters = described?.parameters ?? [];
  const touched = (): void => {
    draft.isTouched = true;
    changed();
  };
  return (
    <>
      {parameters.map(({ name, type }, index) => {
        const value = draft.values?.[index];
        return (
          value !== undefined && (
            <FormField
              key={index}
              label={name ?? (parameters.length > 1 ? `argument ${index + 1}` : '')}
              type={type}
              value={value}
              problems={draft.problems}
              changed={touched}
            />
          )
        );
      })}
    </>
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
        value={draft.json}
        onInput={(event) => {
          draft.json = event.currentTarget.value;
          changed();
        }}
      />
    </div>
  );
}

function Answer({ answer: { status, text, ms } }: { readonly answer: CallAnswer }) {
  const isGood = status === 200;
  return (
    <section class="answer" role="status" aria-label="Result">
      <h4>
        <Badge tone={isGood ? 'good' : 'bad'} text={isGood ? 'Reply' : `${status} ${kindOf(status)}`} />
        <span class="hint">{durationText(ms)}</span>
      </h4>
      {isGood ? <JsonView text={text} label="Result" /> : <Failure error={new Error(errorOf(status, text).message)} />}
    </section>
  );
}

function kindOf(status: number): string {
  const kinds: Readonly<Record<number, string>> = {
    400: 'Refused',
    402: 'Out of cycles',
    404: 'Not found',
    413: 'Too large',
    500: 'No reply',
    503: 'Not now',
  };
  return kinds[status] ?? '';
}
