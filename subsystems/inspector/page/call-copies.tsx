import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { CallRequest } from './api.ts';
import type { CallableMethod } from './callable-methods.ts';
import { clientCode, curlCommand, fetchCode } from './curl.ts';
import { messageOf } from './messages.ts';
import { CopyButton } from './pieces.tsx';
import { hashOf, type SharedCall } from './place.ts';
import { NAME_CHARACTERS_MAX, saveCall } from './saved-calls.ts';

interface CopiesProps {
  readonly method: CallableMethod;
  readonly hasToken: boolean;
  /** Returns undefined if something is wrong with the form: it says so itself. */
  readonly write: () => CallRequest | undefined;
  readonly writeCandid: () => string | undefined;
}

/** Buttons that take the call away: as code, as a command, as a link, or into the browser's saved calls. */
export function CallCopies({ method, hasToken, write, writeCandid }: CopiesProps) {
  const copied = (textOf: (request: CallRequest) => string) => (): string | undefined => {
    const request = write();
    return request === undefined ? undefined : textOf(request);
  };
  const { origin, pathname } = location;
  const code = (request: CallRequest): string =>
    clientCode(origin, request, { hasToken, isTyped: method.described !== undefined && isPlain(request) });
  return (
    <div class="row copies">
      <span class="hint">Copy as</span>
      <CopyButton text={copied((request) => curlCommand(origin, request, hasToken))} label="curl" name="Copy as curl" />
      <CopyButton text={copied((request) => fetchCode(origin, request, hasToken))} label="fetch" name="Copy as fetch" />
      <CopyButton text={copied(code)} label="TypeScript" name="Copy as TypeScript" />
      {method.described !== undefined && (
        <CopyButton text={writeCandid} label="Candid text" name="Copy as Candid text" />
      )}
      <CopyButton
        text={copied(
          (request) => `${origin}${pathname}${hashOf(request.actor, 'call', request.method, sharedOf(request))}`,
        )}
        label="link"
        name="Copy link"
      />
      <Save write={write} />
    </div>
  );
}

/** Returns true if the arguments have the types that the server's declarations describe. */
function isPlain({ isLossless, hex }: CallRequest): boolean {
  return !isLossless && hex === undefined;
}

function sharedOf({ json, hex, isLossless, caller }: CallRequest): SharedCall {
  return {
    ...(hex === undefined ? { args: json } : { hex }),
    ...(isLossless && { lossless: true }),
    ...(caller !== '' && { caller }),
  };
}

/** A button, and behind it the name under which the call is saved. */
function Save({ write }: Pick<CopiesProps, 'write'>) {
  const [request, setRequest] = useState<CallRequest | undefined>(undefined);
  const [name, setName] = useState('');
  const [told, setTold] = useState<{ readonly done?: string; readonly problem?: string }>({});
  const save = (): void => {
    if (request === undefined) return;
    try {
      const { actor, method } = request;
      saveCall({ name: name.trim(), actor, method, shared: sharedOf(request) });
      setRequest(undefined);
      setTold({ done: 'Saved in this browser.' });
    } catch (error) {
      setTold({ problem: messageOf(error) });
    }
  };
  if (request === undefined) {
    return (
      <>
        <button
          type="button"
          class="quiet"
          onClick={() => {
            const written = write();
            setRequest(written);
            setName(written?.method.slice(0, NAME_CHARACTERS_MAX) ?? '');
            setTold({});
          }}
        >
          Save …
        </button>
        {told.done !== undefined && (
          <span class="hint" role="status">
            {told.done}
          </span>
        )}
      </>
    );
  }
  return (
    <SavedName name={name} setName={setName} problem={told.problem} save={save} cancel={() => setRequest(undefined)} />
  );
}

function SavedName({
  name,
  setName,
  problem,
  save,
  cancel,
}: {
  readonly name: string;
  readonly setName: (name: string) => void;
  readonly problem: string | undefined;
  readonly save: () => void;
  readonly cancel: () => void;
}) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <div class="row grow">
      <input
        ref={field}
        class="grow"
        aria-label="Name of the saved call"
        aria-invalid={problem !== undefined}
        aria-describedby="save-problem"
        autocomplete="off"
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return;
          // Enter would make the call.
          event.preventDefault();
          event.stopPropagation();
          save();
        }}
      />
      <button type="button" onClick={save}>
        Save
      </button>
      <button type="button" class="quiet" onClick={cancel}>
        Cancel
      </button>
      <p class="problem" id="save-problem">
        {problem}
      </p>
    </div>
  );
}
