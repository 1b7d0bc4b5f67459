import { useMemo, useState } from 'preact/hooks';
import type { Actor, Api } from './api.ts';
import type { UpgradeReport } from './upgrade-changes.ts';
import { ApiError } from './api-errors.ts';
import { ConfirmButton } from './confirm.tsx';
import { durationText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';
import { InstallForm } from './install.tsx';
import { ModuleDrop } from './module-drop.tsx';
import { CopyButton, Failure, Hint } from './pieces.tsx';
import { Lack } from './lack.tsx';
import { useLacking } from './use-rights.ts';
import { Report } from './upgrade-report.tsx';

/** The actor's module and interface, and a form to replace the module. */
export function CodeTab({ actor, api }: { readonly actor: Actor; readonly api: Api }) {
  // Memoized, because an interface may be long, and this is drawn every 2 s.
  const candid = useMemo(
    () => (actor.candid === null ? undefined : inertText(actor.candid, { hasLines: true })),
    [actor.candid],
  );
  const lacking = useLacking(actor);
  const lacksInstall = lacking('install');
  const lacksDescribe = actor.isPartial === true ? lacking('describe') : undefined;
  return (
    <>
      {lacking('upgrade') === undefined ? (
        <Upgrade key={actor.id} actor={actor} api={api} />
      ) : (
        <Lack scope={`upgrade:${actor.name}`} doing="replace its code" />
      )}
      {actor.isPartial !== true && (
        <section class="panel">
          <h3>Module</h3>
          <p class="mono wrap">{actor.moduleHash ?? 'none'}</p>
        </section>
      )}
      <section class="panel">
        <div class="row">
          <h3 class="grow">Interface</h3>
          {actor.candid !== null && <CopyButton text={actor.candid} label="Copy" name="Copy interface" />}
        </div>
        {actor.candidProblem !== null && <p class="notice">{inertText(actor.candidProblem)}</p>}
        {lacksDescribe !== undefined ? (
          <Lack scope={lacksDescribe} doing="read its interface" />
        ) : actor.candid === null ? (
          <Hint>The module carries no Candid interface.</Hint>
        ) : (
          <pre class="candid" tabIndex={0} aria-label="Interface">
            {candid}
          </pre>
        )}
        <GivenInterface actor={actor} api={api} />
      </section>
      <section class="panel">
        <h3>Reinstall</h3>
        {lacksInstall === undefined ? (
          <InstallForm
            key={actor.id}
            api={api}
            reinstalled={{ name: actor.name, memoryBytes: actor.heapBytes + actor.stableBytes }}
            installed={() => undefined}
          />
        ) : (
          <Lack scope={lacksInstall} doing="reinstall it" />
        )}
      </section>
    </>
  );
}

/** Gives an interface to a module that carries none, or none that is understood; the server says if it fits. */
function GivenInterface({ actor, api }: { readonly actor: Actor; readonly api: Api }) {
  const lacks = useLacking(actor)('upgrade');
  const [text, setText] = useState(actor.candid ?? '');
  return (
    <details>
      <summary>Give it an interface</summary>
      <div class="flat">
        <textarea
          class="mono"
          rows={4}
          spellcheck={false}
          aria-label="Interface to give (.did)"
          placeholder="service : { … }"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <ConfirmButton
          label="Give this interface"
          tells={
            'For a module that carries no interface that is understood. It is used at once, and kept through upgrades ' +
            'until another one is given; code and state stay.'
          }
          yes="Give it"
          lacks={lacks}
          isDisabled={text.trim() === ''}
          change={async () => {
            await api.giveInterface(actor.name, text);
            return 'The interface is kept.';
          }}
        />
      </div>
    </details>
  );
}

interface Outcome {
  readonly text?: string;
  readonly error?: unknown;
  readonly report?: UpgradeReport | undefined;
}

class UnreadableError extends Error {}

/** Reads the file's present content; a browser refuses a file that has changed since it was chosen. */
async function bytesOf(file: File): Promise<ArrayBuffer> {
  try {
    return await file.arrayBuffer();
  } catch {
    throw new UnreadableError(`${shortText(file.name, 80)} has changed since it was chosen: choose it again`);
  }
}

function Upgrade({ actor, api }: { readonly actor: Actor; readonly api: Api }) {
  const [file, setFile] = useState<File | undefined>(undefined);
  const [argument, setArgument] = useState('');
  const [isForced, setForced] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome>({});
  const name = inertText(shortText(actor.name, 60));

  const choose = (chosen: File | undefined): void => {
    // Dropped text is no file.
    if (chosen === undefined) return;
    setFile(chosen);
    setForced(false);
    setOutcome({});
  };
  const upgrade = async (chosen: File | undefined): Promise<void> => {
    setBusy(true);
    setOutcome({});
    const startedMs = performance.now();
    try {
      const module = chosen === undefined ? undefined : await bytesOf(chosen);
      const report = await api.upgrade({ actor: actor.name, module, argument: argument.trim(), isForced });
      setOutcome({ text: `upgraded in ${durationText(performance.now() - startedMs)}`, report });
      setFile(undefined);
      setForced(false);
    } catch (error) {
      if (error instanceof UnreadableError) setFile(undefined);
      setOutcome({ error, report: error instanceof ApiError ? error.report : undefined });
    }
    setBusy(false);
  };

  return (
    <section class="panel">
      <h3>Upgrade</h3>
      <ModuleDrop file={file} choose={choose} />
      <div class="row">
        <button
          type="button"
          class="primary"
          disabled={file === undefined || isBusy}
          onClick={() => void upgrade(file)}
        >
          {isBusy ? 'Upgrading …' : `Upgrade ${name}`}
        </button>
        <button type="button" disabled={isBusy || file !== undefined} onClick={() => void upgrade(undefined)}>
          Reload the manifest's file
        </button>
        <ArgumentField value={argument} changed={setArgument} />
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={isForced}
          disabled={isBusy}
          onChange={(event) => setForced(event.currentTarget.checked)}
        />
        Force: do not check what the new module would lose
      </label>
      <Hint>The state is kept. If the new module refuses, nothing has changed.</Hint>
      {outcome.text !== undefined && (
        <p class="done" role="status">
          {inertText(outcome.text)}
        </p>
      )}
      {outcome.error !== undefined && <Failure error={outcome.error} />}
      {outcome.report !== undefined && <Report report={outcome.report} />}
    </section>
  );
}

function ArgumentField({ value, changed }: { readonly value: string; readonly changed: (value: string) => void }) {
  return (
    <label class="grow argument">
      <span class="offscreen">Argument of the upgrade hook, in hex</span>
      <input
        class="mono"
        placeholder="Argument in hex (none)"
        spellcheck={false}
        autocomplete="off"
        value={value}
        onInput={(event) => changed(event.currentTarget.value)}
      />
    </label>
  );
}
