import { useMemo, useRef, useState } from 'preact/hooks';
import type { Actor, Api, CallAnswer, CallRequest } from './api.ts';
import { errorOf } from './api.ts';
import type { Parameter } from './candid/did-types.ts';
import { typeText } from './candid/did-types.ts';
import { encodeForm, type Problems } from './candid/encode-form.ts';
import { emptyValue, type FormValue } from './candid/form-value.ts';
import { type DidMethod, parseDid } from './candid/parse-did.ts';
import { curlCommand } from './curl.ts';
import { durationText } from './format.ts';
import { FormField } from './form.tsx';
import { useRedraw } from './hooks.ts';
import { inertText, shortText } from './inert-text.ts';
import { JsonView } from './json-view.tsx';
import { messageOf } from './messages.ts';
import { Badge, CopyButton, Failure } from './pieces.tsx';

/** A method as it can be called here; without a description of its types, only as lossless JSON. */
interface CallableMethod {
  readonly name: string;
  readonly kind: string;
  readonly described: DidMethod | undefined;
}

interface CallableMethods {
  readonly methods: readonly CallableMethod[];
  /** Why there are no forms. */
  readonly problem: string | undefined;
}

function callableMethods({ candid, candidProblem, methods }: Actor): CallableMethods {
  let described: readonly DidMethod[] = [];
  let problem = candidProblem ?? undefined;
  if (candid !== null) {
    try {
      described = parseDid(candid).methods;
    } catch (error) {
      problem = messageOf(error);
    }
  }
  const names = new Set(described.map(({ name }) => name));
  const others = methods.filter(({ name }) => !names.has(name));
  return {
    methods: [
      ...described.map((method) => ({ name: method.name, kind: method.kind, described: method })),
      ...others.map(({ name, kind }) => ({ name, kind, described: undefined })),
    ],
    problem,
  };
}

const SEARCHED_METHODS_MIN = 12;
/** Methods that are listed at once; an interface may have tens of thousands. */
const LISTED_METHODS_MAX = 200;

/** The methods of an actor, and the one that is chosen with its form. */
export function CallTab({
  actor,
  api,
  hasToken,
  method,
  choose,
}: {
  readonly actor: Actor;
  readonly api: Api;
  readonly hasToken: boolean;
  readonly method: string | undefined;
  readonly choose: (method: string) => void;
}) {
  const { methods, problem } = useMemo(() => callableMethods(actor), [actor.candid, actor.moduleHash]);
  const [filter, setFilter] = useState('');
  const chosen = methods.find(({ name }) => name === method) ?? methods[0];
  const shown = methods.filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
  return (
    <>
      {problem !== undefined && (
        <p class="notice">
          The interface was not understood, so methods are called with lossless JSON: {inertText(problem)}
        </p>
      )}
      <div class="call">
        <div class="methods">
          {methods.length >= SEARCHED_METHODS_MIN && (
            <input
              type="search"
              placeholder={`Filter ${methods.length} methods`}
              aria-label="Filter methods"
              value={filter}
              onInput={(event) => setFilter(event.currentTarget.value)}
            />
          )}
          <ul aria-label="Methods">
            {shown.slice(0, LISTED_METHODS_MAX).map(({ name, kind }) => (
              <li key={name}>
                <button
                  type="button"
                  class="method"
                  aria-current={name === chosen?.name ? 'true' : undefined}
                  onClick={() => choose(name)}
                >
                  <span class="name">{inertText(shortText(name, 80))}</span>
                  <span class={`kind ${kind}`}>{kind.replace('_', ' ')}</span>
                </button>
              </li>
            ))}
          </ul>
          {shown.length > LISTED_METHODS_MAX && (
            <p class="hint">and {shown.length - LISTED_METHODS_MAX} more: filter by name</p>
          )}
        </div>
        {chosen === undefined ? (
          <p class="empty">This actor has no methods.</p>
        ) : (
          <MethodCall
            key={`${actor.id} ${actor.moduleHash} ${chosen.name}`}
            actor={actor}
            api={api}
            hasToken={hasToken}
            method={chosen}
          />
        )}
      </div>
    </>
  );
}

/** Forms that cannot be shown, because their types are too large, say so. */
function emptyValues(parameters: readonly Parameter[]): readonly FormValue[] | string {
  try {
    return parameters.map(({ type }) => emptyValue(type));
  } catch (error) {
    return messageOf(error);
  }
}

function MethodCall({
  actor,
  api,
  hasToken,
  method,
}: {
  readonly actor: Actor;
  readonly api: Api;
  readonly hasToken: boolean;
  readonly method: CallableMethod;
}) {
  const redraw = useRedraw();
  const parameters = method.described?.parameters ?? [];
  const [values] = useState(() => emptyValues(parameters));
  const hasForm = method.described !== undefined && typeof values !== 'string';
  const [isText, setText] = useState(!hasForm);
  const [text, setJson] = useState('[]');
  const [wantsLossless, setLossless] = useState(false);
  const isLossless = wantsLossless || method.described === undefined;
  const [caller, setCaller] = useState('');
  const [answer, setAnswer] = useState<CallAnswer | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [isBusy, setBusy] = useState(false);
  const problems = useRef<Problems>(new Map());
  const form = useRef<HTMLFormElement>(null);

  const write = (found: Problems): string =>
    isText || typeof values === 'string'
      ? text
      : encodeForm(
          parameters.flatMap(({ type }, index) => {
            const value = values[index];
            return value === undefined ? [] : [{ type, value }];
          }),
          isLossless,
          found,
        );
  const requestOf = (json: string): CallRequest => ({
    actor: actor.name,
    method: method.name,
    isQuery: method.kind === 'query' || method.kind === 'composite_query',
    isLossless,
    caller: caller.trim(),
    json,
  });

  const call = async (): Promise<void> => {
    problems.current = new Map();
    const json = write(problems.current);
    redraw();
    if (problems.current.size > 0) {
      // When it is drawn: to the first field that has to be mended.
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
      return;
    }
    setBusy(true);
    setError(undefined);
    try {
      setAnswer(await api.call(requestOf(json)));
    } catch (failure) {
      setAnswer(undefined);
      setError(failure);
    }
    setBusy(false);
  };

  return (
    <section class="method-call" aria-label={`Call ${inertText(method.name)}`}>
      <h3 class="mono">{inertText(shortText(method.name, 120))}</h3>
      {method.described !== undefined && (
        <p class="signature mono">
          {inertText(
            typeText({
              kind: 'func',
              parameters: method.described.parameters,
              results: method.described.results,
              annotation:
                method.kind === 'update'
                  ? undefined
                  : method.described.kind === 'update'
                    ? undefined
                    : method.described.kind,
            }),
          )}
        </p>
      )}
      {method.described !== undefined && method.described.docs !== '' && (
        <p class="docs">{inertText(method.described.docs, { hasLines: true })}</p>
      )}
      <form
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          void call();
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          void call();
        }}
      >
        {typeof values === 'string' && <p class="notice">{values}</p>}
        {!isText && typeof values !== 'string' ? (
          parameters.map(({ name, type }, index) => {
            const value = values[index];
            return (
              value !== undefined && (
                <FormField
                  key={index}
                  label={name ?? (parameters.length > 1 ? `argument ${index + 1}` : '')}
                  type={type}
                  value={value}
                  problems={problems.current}
                  changed={redraw}
                />
              )
            );
          })
        ) : (
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
              value={text}
              onInput={(event) => setJson(event.currentTarget.value)}
            />
          </div>
        )}
        <div class="options">
          <label class="caller">
            <span>Caller</span>
            <input
              placeholder="anonymous (2vxsx-fae)"
              spellcheck={false}
              autocomplete="off"
              pattern="[a-z0-9\-\s]*"
              title="A principal as text; it is sent as x-caller"
              value={caller}
              onInput={(event) => setCaller(event.currentTarget.value)}
            />
          </label>
          <label class="check">
            <input
              type="checkbox"
              checked={isLossless}
              disabled={method.described === undefined}
              onChange={(event) => setLossless(event.currentTarget.checked)}
            />
            Lossless
          </label>
          {hasForm && (
            <label class="check">
              <input
                type="checkbox"
                checked={isText}
                onChange={(event) => {
                  const { checked } = event.currentTarget;
                  if (checked) setJson(write(new Map()));
                  setText(checked);
                }}
              />
              As JSON
            </label>
          )}
        </div>
        <div class="row">
          <button type="submit" class="primary" disabled={isBusy}>
            {isBusy ? 'Waiting …' : method.kind === 'update' || method.kind === 'oneway' ? 'Call' : 'Query'}
          </button>
          <CopyButton
            text={() => curlCommand(location.origin, requestOf(write(new Map())), hasToken)}
            label="Copy as curl"
          />
          <span class="hint keys">Ctrl+Enter calls</span>
        </div>
      </form>
      {error !== undefined && <Failure error={error} />}
      {answer !== undefined && <Answer answer={answer} />}
    </section>
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
