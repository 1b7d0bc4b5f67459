import { useState } from 'preact/hooks';
import type { Actor, Api, HistoryEntry } from './api.ts';
import { bytesText, durationText, groupedText, largeText, rateText } from './format.ts';
import { LatestMessages } from './history.tsx';
import { CopyButton, Failure } from './pieces.tsx';
import { Lack, LackHint } from './lack.tsx';
import { useLacking } from './use-rights.ts';
import { levels, rates, type Sample } from './samples.ts';
import { Chart } from './sparkline.tsx';

interface OverviewProps {
  readonly actor: Actor;
  readonly samples: readonly Sample[];
  readonly api: Api;
  /** The interface's names for the ids in messages. */
  readonly names: ReadonlyMap<number, string>;
  /** Messages, newest first; undefined while they are not known. */
  readonly history: readonly HistoryEntry[] | undefined;
  readonly topUp: TopUp;
}

/** An actor's numbers, now and over the last minutes, and its cycles. */
export function Overview(props: OverviewProps) {
  const { actor, samples, api, names, history, topUp } = props;
  if (actor.isPartial === true) {
    return (
      <>
        <Lack scope="inspect" doing="see its figures" />
        <Cycles actor={actor} api={api} topUp={topUp} />
      </>
    );
  }
  return (
    <>
      <div class="charts">
        <Chart
          title="Memory"
          points={levels(samples, ({ memoryBytes }) => memoryBytes)}
          base={1024}
          textOf={bytesText}
        />
        <Chart title="Cycles" points={levels(samples, ({ cycles }) => cycles)} isFromZero={false} textOf={largeText} />
        <Chart title="Messages" points={rates(samples, ({ messages }) => messages)} textOf={rateText} />
        <Chart
          title="Traps"
          points={rates(samples, ({ traps }) => traps)}
          textOf={rateText}
          tone="bad"
          now={largeText(actor.traps)}
        />
        <Chart title="Queue" points={levels(samples, ({ queued }) => queued)} textOf={largeText} />
      </div>
      <div class="columns">
        <StateFigures actor={actor} />
        <Cycles actor={actor} api={api} topUp={topUp} />
      </div>
      <LatestMessages history={history} names={names} />
    </>
  );
}

function StateFigures({ actor }: { readonly actor: Actor }) {
  return (
    <section class="panel">
      <h3>State</h3>
      <dl>
        <Fact name="Heap" value={bytesText(actor.heapBytes)} />
        <Fact name="Stable memory" value={bytesText(actor.stableBytes)} />
        <Fact name="Messages" value={groupedText(String(actor.messages))} />
        <Fact name="Traps" value={groupedText(String(actor.traps))} />
        <Fact name="Queued" value={groupedText(String(actor.queued))} />
        <Fact name="Idle for" value={durationText(actor.idleMs)} />
        <dt>Module</dt>
        <dd class="mono">
          {actor.moduleHash === null ? (
            'none'
          ) : (
            <>
              <span title={actor.moduleHash}>{actor.moduleHash.slice(0, 12)}…</span>
              <CopyButton text={actor.moduleHash} label="Copy" name="Copy module hash" />
            </>
          )}
        </dd>
      </dl>
    </section>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

const TRILLION = 1_000_000_000_000n;

/** A top-up and its result, kept where it outlives the tab. */
interface TopUp {
  readonly outcome: TopUpOutcome;
  readonly setOutcome: (outcome: TopUpOutcome) => void;
}

export interface TopUpOutcome {
  readonly isBusy?: boolean;
  readonly balance?: string;
  readonly error?: unknown;
}

function Cycles({ actor, api, topUp }: { readonly actor: Actor; readonly api: Api; readonly topUp: TopUp }) {
  const [amount, setAmount] = useState('');
  const lacks = useLacking(actor)('topup');
  const { outcome, setOutcome } = topUp;
  const add = async (): Promise<void> => {
    if (outcome.isBusy === true) return;
    setOutcome({ isBusy: true });
    try {
      setOutcome({ balance: await api.addCycles(actor.name, amount.replaceAll(/[\s_,\u202f]/g, '')) });
      setAmount('');
    } catch (error) {
      setOutcome({ error });
    }
  };
  return (
    <section class="panel">
      <h3>Cycles</h3>
      {actor.cycles !== '' && <p class="balance">{groupedText(actor.cycles)}</p>}
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        <label class="grow">
          <span class="offscreen">Cycles to add</span>
          <input
            inputMode="numeric"
            autocomplete="off"
            placeholder="Cycles to add"
            required
            value={amount}
            onInput={(event) => setAmount(event.currentTarget.value)}
          />
        </label>
        {[1n, 10n].map((trillions) => (
          <button
            key={trillions}
            type="button"
            class="quiet"
            onClick={() => setAmount(groupedText(String(trillions * TRILLION)))}
          >
            {String(trillions)} T
          </button>
        ))}
        <button type="submit" disabled={outcome.isBusy === true || lacks !== undefined}>
          Top up
        </button>
        <LackHint scope={lacks} />
      </form>
      {outcome.balance !== undefined && (
        <p class="done" role="status">
          Topped up: the balance is {groupedText(outcome.balance)}.
        </p>
      )}
      {outcome.error !== undefined && <Failure error={outcome.error} />}
    </section>
  );
}
