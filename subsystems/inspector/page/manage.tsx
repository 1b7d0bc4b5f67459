import { useEffect, useState } from 'preact/hooks';
import type { Actor, ActorSnapshot, Api } from './api.ts';
import type { DidInterface } from './candid/did-types.ts';
import { ConfirmButton } from './confirm.tsx';
import { saveFile } from './save-file.ts';
import { bytesText, timeText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';
import { OpenMethodsPanel } from './open-methods-panel.tsx';
import { CopyButton, Failure, Hint } from './pieces.tsx';
import { Lack, LackHint } from './lack.tsx';
import { useLacking } from './use-rights.ts';

interface ManageProps {
  readonly actor: Actor;
  readonly api: Api;
}

interface ManageTabProps extends ManageProps {
  /** Called when the actor is deleted. */
  readonly gone: () => void;
  readonly hasToken: boolean;
  readonly types: DidInterface | undefined;
}

/** Everything about an actor that is neither its messages nor its code: life cycle, files, settings, snapshots. */
export function ManageTab({ actor, api, gone, hasToken, types }: ManageTabProps) {
  const lacking = useLacking(actor);
  return (
    <>
      <LifeCycle actor={actor} api={api} gone={gone} />
      <Files actor={actor} api={api} />
      {lacking('settings') === undefined ? (
        <Settings actor={actor} api={api} />
      ) : (
        <Lack scope={`settings:${actor.name}`} doing="read its settings" />
      )}
      <OpenMethodsPanel actor={actor} api={api} hasToken={hasToken} types={types} />
      {lacking('snapshots') === undefined ? (
        <Snapshots actor={actor} api={api} />
      ) : (
        <Lack scope={`snapshots:${actor.name}`} doing="see its snapshots" />
      )}
    </>
  );
}

function LifeCycle({ actor, api, gone }: ManageProps & { readonly gone: () => void }) {
  const name = inertText(shortText(actor.name, 60));
  const lacking = useLacking(actor);
  const { status, queued } = actor;
  const memory = bytesText(actor.heapBytes + actor.stableBytes);
  const ends =
    status === 'stopped'
      ? ''
      : ` It is ${status}: the message that executes is ended, and whoever waits for it is rejected.`;
  return (
    <section class="panel">
      <h3>Life cycle</h3>
      <div class="actions">
        <ConfirmButton
          label="Start"
          tells={`${name} is ${status}. It takes calls again, with the state that it has.`}
          yes={`Start ${name}`}
          isDisabled={status === 'running'}
          lacks={lacking('stop')}
          change={async () => `${name} is ${await api.startOrStop(actor.name, 'start')}.`}
        />
        <ConfirmButton
          label="Stop"
          tells={
            `New calls of ${name} are refused, also the ${queued} that wait; open calls end first, for five minutes ` +
            'at most. The state stays.'
          }
          yes={`Stop ${name}`}
          isDisabled={status === 'stopped'}
          lacks={lacking('stop')}
          change={async () => `${name} is ${await api.startOrStop(actor.name, 'stop')}.`}
        />
        <ConfirmButton
          label="Delete"
          tells={
            `Code, state, snapshots, history and ${memory} of memory of ${name} are gone for good, and its cycles.` +
            `${ends} Only a backup brings it back.`
          }
          yes={`Delete ${name}`}
          lacks={lacking('delete')}
          isDangerous
          change={async () => {
            await api.remove(actor.name, status !== 'stopped');
            gone();
            return `${name} is deleted.`;
          }}
        />
      </div>
    </section>
  );
}

function Files({ actor, api }: ManageProps) {
  const [error, setError] = useState<unknown>(undefined);
  const file = inertText(actor.name).replaceAll(/[^\w.-]/g, '_');
  const path = encodeURIComponent(actor.name);
  const save = async (from: string, name: string): Promise<void> => {
    setError(undefined);
    try {
      saveFile(await api.file(from), name);
    } catch (failure) {
      setError(failure);
    }
  };
  const lacks = useLacking(actor)('describe');
  const hasInterface = actor.candid !== null && lacks === undefined;
  const website = `/site/${path}/`;
  return (
    <section class="panel">
      <h3>Files and website</h3>
      <div class="row">
        <button type="button" disabled={!hasInterface} onClick={() => void save(`/candid/${path}`, `${file}.did`)}>
          Interface (.did)
        </button>
        <button type="button" disabled={!hasInterface} onClick={() => void save(`/openapi/${path}`, `${file}.json`)}>
          OpenAPI
        </button>
        <button
          type="button"
          disabled={!hasInterface}
          onClick={() => void save(`/x/actors/${path}/types`, `${file}.d.ts`)}
        >
          TypeScript types
        </button>
        <button
          type="button"
          disabled={actor.isPartial !== true && !actor.methods.some(({ name }) => name === 'http_request')}
          onClick={() => open(website, '_blank', 'noopener')}
        >
          Open website
        </button>
      </div>
      {lacks !== undefined ? (
        <LackHint scope={lacks} />
      ) : (
        !hasInterface && <Hint>Without an interface there are no files: give it one in “Code”.</Hint>
      )}
      <Hint>
        A website below <code>/site/</code> shares this page's origin: open those of actors that you do not trust by
        their host names (--site-hosts).
      </Hint>
      {error !== undefined && <Failure error={error} />}
    </section>
  );
}

/** Text of the settings as told and as edited. */
interface Edited {
  readonly told: string | undefined;
  readonly text: string;
  readonly isSaved: boolean;
  readonly error: unknown;
}

/** Settings as JSON: those of them that are edited are sent. */
function Settings({ actor, api }: ManageProps) {
  const [{ told, text, isSaved, error }, set] = useState<Edited>({
    told: undefined,
    text: '',
    isSaved: false,
    error: undefined,
  });
  const take = async (asked: Promise<unknown>, saves: boolean): Promise<void> => {
    try {
      const lines = JSON.stringify(await asked, null, 2);
      set({ told: lines, text: lines, isSaved: saves, error: undefined });
    } catch (failure) {
      set((before) => ({ ...before, isSaved: false, error: failure }));
    }
  };
  const lacks = useLacking(actor)('configure');
  const ask = (): void => void take(api.settings(actor.name), false);
  useEffect(ask, [actor.id, api]);
  const changed = told === undefined ? {} : changesOf(told, text);
  const names = typeof changed === 'object' ? Object.keys(changed) : [];
  return (
    <section class="panel">
      <h3>Settings</h3>
      <textarea
        class="mono"
        rows={8}
        spellcheck={false}
        aria-label="Settings as JSON"
        aria-invalid={typeof changed === 'string'}
        aria-describedby="settings-problem"
        value={text}
        onInput={(event) => {
          const edited = event.currentTarget.value;
          set((before) => ({ ...before, text: edited, isSaved: false }));
        }}
      />
      <p id="settings-problem" class={typeof changed === 'string' ? 'problem' : 'hint'}>
        {typeof changed === 'string' ? inertText(shortText(changed, 200)) : changesText(names)}
      </p>
      <div class="row">
        <button
          type="button"
          class="primary"
          disabled={names.length === 0 || lacks !== undefined}
          onClick={() => void take(api.changeSettings(actor.name, JSON.stringify(changed)), true)}
        >
          Save settings
        </button>
        <LackHint scope={lacks} />
        <button type="button" onClick={ask}>
          Read again
        </button>
      </div>
      {isSaved && (
        <p class="done" role="status">
          The settings are saved.
        </p>
      )}
      {error !== undefined && <Failure error={error} />}
    </section>
  );
}

function changesText(names: readonly string[]): string {
  if (names.length === 0) return 'Nothing is changed.';
  const list = names.map((name) => inertText(shortText(name, 60))).join(', ');
  return `Changes ${list}; what they mean: docs/management.md, “Settings”.`;
}

/** Returns the members of the edited object that differ from those that were told; a text says what is wrong. */
function changesOf(told: string, edited: string): Readonly<Record<string, unknown>> | string {
  if (told === edited) return {};
  let after: unknown;
  try {
    after = JSON.parse(edited);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  if (typeof after !== 'object' || after === null || Array.isArray(after)) return 'expected a JSON object';
  const before = JSON.parse(told) as Readonly<Record<string, unknown>>;
  const members = Object.entries(after as Readonly<Record<string, unknown>>);
  return Object.fromEntries(members.filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));
}

function Snapshots({ actor, api }: ManageProps) {
  const [listed, setListed] = useState<readonly ActorSnapshot[] | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const name = inertText(shortText(actor.name, 60));
  const list = async (): Promise<void> => {
    setError(undefined);
    try {
      setListed(await api.snapshots(actor.name));
    } catch (failure) {
      setError(failure);
    }
  };
  useEffect(() => void list(), [actor.id, api]);
  return (
    <section class="panel">
      <h3>Snapshots</h3>
      <ConfirmButton
        label="Take a snapshot"
        tells={takingTells(name, actor.heapBytes + actor.stableBytes)}
        yes="Take it"
        change={async () => {
          const { id } = await api.takeSnapshot(actor.name);
          await list();
          return `Snapshot ${shortText(id, 40)} is taken.`;
        }}
      />
      {listed?.length === 0 && <Hint>There is none.</Hint>}
      {listed !== undefined && listed.length > 0 && (
        <ul class="snapshots" aria-label="Snapshots">
          {listed.map(({ id, time, bytes }) => (
            <li key={id}>
              <span>
                {timeText(time, Date.now()) ?? inertText(shortText(time, 40))}, {bytesText(bytes)}{' '}
                <span class="mono">{inertText(id)}</span>
                <CopyButton text={id} label="Copy" name={`Copy id of snapshot ${id}`} />
              </span>
              <div class="actions">
                <ConfirmButton
                  label="Load"
                  tells={loadingTells(name)}
                  yes={`Load it into ${name}`}
                  isDangerous
                  change={async () => {
                    await api.loadSnapshot(actor.name, id);
                    return 'The snapshot is loaded.';
                  }}
                />
                <ConfirmButton
                  label="Delete snapshot"
                  tells="The snapshot is gone for good. The actor stays as it is."
                  yes="Delete it"
                  isDangerous
                  change={async () => {
                    await api.deleteSnapshot(actor.name, id);
                    await list();
                    return 'The snapshot is deleted.';
                  }}
                />
              </div>
            </li>
          ))}
        </ul>
      )}
      {error !== undefined && <Failure error={error} />}
    </section>
  );
}

function takingTells(name: string, bytes: number): string {
  return (
    `Code and state of ${name}, ${bytesText(bytes)}, are kept beside it until the snapshot is deleted; an actor has ` +
    'ten at most.'
  );
}

function loadingTells(name: string): string {
  return (
    `Code and state of ${name} become those of this snapshot. What happened since is lost: take another snapshot ` +
    'first if it may be wanted.'
  );
}
