import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ActorMessage, Api } from './api.ts';
import { ConfirmButton } from './confirm.tsx';
import { bytesText, durationText, largeText, rateText, timeText } from './format.ts';
import { TONES } from './history-tones.ts';
import { inertText, shortText } from './inert-text.ts';
import { InstallForm } from './install.tsx';
import type { ListPlace, Sort } from './list-place.ts';
import { Badge, Failure } from './pieces.tsx';
import { hashOf } from './place.ts';
import { Lack, LackHint } from './lack.tsx';
import { useRights } from './use-rights.ts';
import { saveFile } from './save-file.ts';
import { levels, rates } from './samples.ts';
import { HOST_SAMPLES, type ShownActors } from './shown-actors.ts';
import { Chart } from './sparkline.tsx';
import { useEvenColumns } from './use-even-columns.ts';

interface HomeProps {
  readonly shown: ShownActors;
  readonly list: ListPlace;
  readonly listRef: RefObject<HTMLElement | null>;
  readonly api: Api;
  readonly go: (hash: string) => void;
}

/** The host at a glance: its figures, each a way to where it comes from, and the latest failures of all actors. */
export function Home(props: HomeProps) {
  const { shown, api, go } = props;
  const [source, setSource] = useState<Source | undefined>(undefined);
  if (shown.round === undefined) {
    return (
      <main class="detail home">
        <h2>This host</h2>
        <p class="empty">Asking the server …</p>
      </main>
    );
  }
  return (
    <main class="detail home">
      <h2>This host</h2>
      <Figures {...props} round={shown.round} showSource={setSource} />
      <HostCharts shown={shown} />
      {source !== undefined && (
        <SourceText
          key={`${source.path} ${source.part}`}
          api={api}
          source={source}
          close={() => setSource(undefined)}
        />
      )}
      <Failures failures={shown.round.failures} go={go} />
      <div class="columns">
        <Installation api={api} go={go} />
        <Backup api={api} stateBytes={shown.round.host.stateBytes} />
      </div>
      <p class="hint keys">
        <kbd>/</kbd> searches, <kbd>↑</kbd> <kbd>↓</kbd> move, <kbd>Enter</kbd> opens, <kbd>Esc</kbd> goes back.
      </p>
    </main>
  );
}

/** The form that installs an actor. */
export function Installation({ api, go }: Pick<HomeProps, 'api' | 'go'>) {
  const lacking = useRights().lackingForAll('install');
  return (
    <section class="panel" aria-label="Install an actor">
      <h3>Install an actor</h3>
      {lacking === undefined ? (
        <InstallForm api={api} installed={(name) => go(hashOf(name))} />
      ) : (
        <Lack scope={lacking} doing="install actors" />
      )}
    </section>
  );
}

/** Answer of the server from which a figure comes. */
interface Source {
  readonly path: '/metrics' | '/version';
  /** Part of the lines to show. */
  readonly part: string;
}

interface FiguresProps extends HomeProps {
  readonly round: NonNullable<ShownActors['round']>;
  readonly showSource: (source: Source) => void;
}

/** Figures besides those of states. */
const FIGURES_ALWAYS = 10;

function Figures({ round: { host }, list, listRef, shown, showSource }: FiguresProps) {
  const lacksMetrics = useRights().lacking('metrics');
  const showMetric = (part: string): void => showSource({ path: '/metrics', part });
  const show = (sort?: Sort, state?: string): void => {
    list.showAll(sort, state);
    listRef.current?.focus();
    listRef.current?.scrollIntoView({ block: 'nearest' });
  };
  const ofState = (state: string): number => host.states[state] ?? 0;
  const rate = rates(shown.samples.of(HOST_SAMPLES), ({ messages }) => messages).at(-1)?.value ?? 0;
  const states = ['asleep', 'dry', 'stopping', 'stopped'].filter((state) => state === 'asleep' || ofState(state) > 0);
  const figures = useRef<HTMLDivElement>(null);
  const count = FIGURES_ALWAYS + states.length;
  const columns = useEvenColumns(figures, count);
  return (
    <div ref={figures} class="figures" style={{ '--columns': columns }}>
      <Figure name="Actors" value={largeText(host.actors)} go={() => show()} />
      <Figure name="Live" value={largeText(ofState('running'))} go={() => show('id', 'running')} />
      {states.map((state) => (
        <Figure
          key={state}
          name={`${state.charAt(0).toUpperCase()}${state.slice(1)}`}
          value={largeText(ofState(state))}
          go={() => show('id', state)}
          isBad={state === 'dry'}
        />
      ))}
      <Figure name="Messages a second" value={rateText(rate)} go={() => show('messages')} />
      <Figure name="Traps" value={largeText(host.traps)} go={() => show('traps')} isBad={host.traps > 0} />
      <Figure name="Waiting messages" value={largeText(host.queued)} go={() => show('queued')} />
      <Figure name="Memory of actors" value={bytesText(host.memoryBytes)} go={() => show('memory')} />
      <Figure
        name="Memory of the process"
        value={bytesText(host.processBytes)}
        go={() => showMetric('process_resident_memory_bytes')}
        lacks={lacksMetrics}
      />
      <Figure
        name="State on disk"
        value={host.stateBytes === null ? 'not known' : host.stateBytes === 0 ? 'none' : bytesText(host.stateBytes)}
        go={() => showMetric('svc_state_bytes')}
        lacks={lacksMetrics}
      />
      <Figure
        name="Up for"
        value={durationText(host.uptimeMs)}
        go={() => showMetric('svc_uptime_seconds')}
        lacks={lacksMetrics}
      />
      <Figure
        name="Version"
        value={inertText(`${shown.version.number} ${shown.version.build}`)}
        go={() => showSource({ path: '/version', part: '' })}
        isAlone={count % columns === 1}
      />
    </div>
  );
}

/** A figure that leads to where it comes from. */
function Figure({
  name,
  value,
  go,
  isBad = false,
  isAlone = false,
  lacks,
}: {
  readonly name: string;
  readonly value: string;
  readonly go: () => void;
  readonly isBad?: boolean;
  /** True in a row of its own, which it fills. */
  readonly isAlone?: boolean;
  /** Scope that the token lacks for where the figure comes from; the figure itself is seen. */
  readonly lacks?: string | undefined;
}) {
  return (
    <button
      type="button"
      class={`figure${isBad ? ' is-bad' : ''}${isAlone ? ' is-alone' : ''}`}
      aria-disabled={lacks !== undefined}
      onClick={() => lacks === undefined && go()}
    >
      <span class="name">{name}</span> <span class="value">{value}</span> <LackHint scope={lacks} />
    </button>
  );
}

function HostCharts({ shown }: Pick<HomeProps, 'shown'>) {
  const samples = shown.samples.of(HOST_SAMPLES);
  return (
    <div class="charts">
      <Chart title="Messages" points={rates(samples, ({ messages }) => messages)} textOf={rateText} />
      <Chart title="Traps" points={rates(samples, ({ traps }) => traps)} textOf={rateText} tone="bad" />
      <Chart title="Memory" points={levels(samples, ({ memoryBytes }) => memoryBytes)} base={1024} textOf={bytesText} />
      <Chart title="Queue" points={levels(samples, ({ queued }) => queued)} textOf={largeText} />
    </div>
  );
}

function Failures({ failures, go }: { readonly failures: readonly ActorMessage[]; readonly go: HomeProps['go'] }) {
  return (
    <Section title="Latest failures">
      {failures.length === 0 ? (
        <p class="hint">
          No message has failed, as far as the histories reach (none are recorded with --history 0). Choose an actor in
          the list to look at its messages, or to call it.
        </p>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-label="Table of the latest failures">
          <table>
            <thead>
              <tr>
                <th>Time</th>
                <th>Actor</th>
                <th>Method</th>
                <th>Outcome</th>
                <th>Message</th>
              </tr>
            </thead>
            <tbody>
              {failures.map((failure) => (
                <tr key={failure.id}>
                  <td>{timeText(failure.time, Date.now()) ?? inertText(shortText(failure.time, 40))}</td>
                  <td>
                    <button type="button" class="quiet" onClick={() => go(hashOf(failure.name, 'history'))}>
                      {inertText(shortText(failure.name, 40))}
                    </button>
                  </td>
                  <td class="mono">
                    {inertText(shortText(failure.method === '' ? failure.kind : failure.method, 40))}
                  </td>
                  <td>
                    <Badge tone={TONES[failure.outcome] ?? 'none'} text={failure.outcome.replaceAll('_', ' ')} />
                  </td>
                  <td class="message">{inertText(shortText(failure.message ?? '', 200))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  );
}

/** The state of all actors as one file. */
export function Backup({ api, stateBytes }: { readonly api: Api; readonly stateBytes: number | null }) {
  const lacks = useRights().lacking('backup');
  const has = stateBytes === null || stateBytes === 0 ? '' : `, about ${bytesText(stateBytes)}`;
  return (
    <section class="panel" aria-label="Backup">
      <h3>Backup</h3>
      <ConfirmButton
        label="Download a backup"
        tells={
          `The state of all actors${has}, as of one moment, comes as one file, and with it everything that they keep ` +
          'secret. Messages go on meanwhile. A server that is started with “--state DIR --restore FILE” has that state.'
        }
        yes="Download it"
        lacks={lacks}
        change={async () => {
          saveFile(await api.file('/backup'), `svc-backup-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`);
          return 'The backup is complete.';
        }}
      />
    </section>
  );
}

function Section({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <section class="latest" aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** Characters that are shown: the metrics of a server with 10,000 actors have two million. */
const SOURCE_CHARACTERS_MAX = 100_000;

/** Lines of a source that have a part, asked for once. */
function SourceText({
  api,
  source,
  close,
}: {
  readonly api: Api;
  readonly source: Source;
  readonly close: () => void;
}) {
  const [part, setPart] = useState(source.part);
  const [{ text, error }, setTold] = useState<{ readonly text?: string; readonly error?: unknown }>({});
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current?.focus();
    const stop = new AbortController();
    const ask = async (): Promise<void> => {
      try {
        setTold({ text: await api.text(source.path, stop.signal) });
      } catch (failure) {
        if (!stop.signal.aborted) setTold({ error: failure });
      }
    };
    void ask();
    return () => stop.abort();
  }, [api]);
  const lines = text?.split('\n').filter((line) => line.includes(part)) ?? [];
  return (
    <Section title={source.path}>
      <div class="row">
        <input
          ref={input}
          class="grow"
          type="search"
          spellcheck={false}
          placeholder="Part of a line"
          aria-label={`Lines of ${source.path} with this part`}
          value={part}
          onInput={(event) => setPart(event.currentTarget.value)}
        />
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
      {error !== undefined && <Failure error={error} />}
      {text !== undefined && (
        <pre class="candid" tabIndex={0} aria-label={`Answer of ${source.path}`}>
          {lines.length === 0
            ? 'No line has this part.'
            : inertText(shortText(lines.join('\n'), SOURCE_CHARACTERS_MAX), { hasLines: true })}
        </pre>
      )}
    </Section>
  );
}
