import type { Costs, MessageCost } from './measure.ts';

interface Host {
  readonly cores: number;
  /** Bytes that actors may have together: `--memory-bytes`. */
  readonly memoryBytes: number;
  /** The state directory; undefined: everything lives in memory. */
  readonly directory: string | undefined;
}

/** Numbers of actors of the measured kind that fit. */
interface Room {
  readonly live: number;
  /** Undefined where nobody sleeps. */
  readonly asleep: number | undefined;
  /** Resource that ends first for sleeping actors. */
  readonly asleepBound: 'memory' | 'disk' | undefined;
}

function roomOf({ live, durable }: Costs, { memoryBytes }: Host): Room {
  const fit = (bytes: number, each: number): number => Math.floor(bytes / Math.max(1, each));
  if (durable?.asleep === undefined)
    return { live: fit(memoryBytes, live.bytes), asleep: undefined, asleepBound: undefined };
  const inMemory = fit(memoryBytes, durable.asleep.bytes);
  const onDisk = fit(durable.freeDiskBytes, durable.asleep.diskBytes);
  return {
    live: fit(memoryBytes, live.bytes),
    asleep: Math.min(inMemory, onDisk),
    asleepBound: inMemory <= onDisk ? 'memory' : 'disk',
  };
}

/** Returns the figures as one JSON object, in bytes, milliseconds, microseconds and a second. */
export function jsonOf(costs: Costs, host: Host, seconds: number): string {
  const durable = costs.durable === undefined ? null : { ...costs.durable, asleep: costs.durable.asleep ?? null };
  const { live, asleep = null, asleepBound = null } = roomOf(costs, host);
  return JSON.stringify(
    { ...host, directory: host.directory ?? null, ...costs, durable, room: { live, asleep, asleepBound }, seconds },
    (_key, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value),
  );
}

/** Returns the figures as lines for people. */
export function linesOf(costs: Costs, host: Host): readonly string[] {
  const { live, asleep, asleepBound } = roomOf(costs, host);
  const { durable } = costs;
  const lines = [
    `host: ${host.cores} core(s); actors may have ${bytesText(host.memoryBytes)} (--memory-bytes); a server without actors takes ${bytesText(costs.idleBytes)}`,
    `live actor: ${bytesText(costs.live.bytes)} of memory; ${msText(costs.live.installMs)} to install`,
  ];
  if (durable?.asleep !== undefined) {
    const { bytes, diskBytes, wakeMs } = durable.asleep;
    lines.push(
      `sleeping actor: ${bytesText(bytes)} of memory, ${bytesText(diskBytes)} of disk; ${msText(wakeMs)} to wake`,
    );
  }
  lines.push(messageLine('query', costs.query), messageLine('update', costs.update));
  if (durable === undefined) lines.push('durable update, sleeping actor: not measured: --state DIR names the disk');
  else lines.push(messageLine('durable update', durable.update));
  if (durable !== undefined && durable.asleep === undefined)
    lines.push('sleeping actor: not measured: no time was left on this machine');
  const sleeping =
    asleep === undefined ? '' : `, or ${countText(asleep)} sleeping ones (the ${asleepBound} ends first)`;
  lines.push(
    `room: some ${countText(live)} live actors${sleeping}, all as small as the example counter: what an actor holds comes on top`,
  );
  return lines;
}

function messageLine(kind: string, { aloneMs, perSecond, cpuMicroseconds }: MessageCost): string {
  return `${kind}: ${msText(aloneMs)} alone; ${countText(perSecond)} a second with 32 under way, each ${Math.round(cpuMicroseconds)} µs of processor time`;
}

/** Returns a number with two digits that count: no measurement here has more. */
function countText(count: number): string {
  return Number(count.toPrecision(2)).toLocaleString('en', { maximumFractionDigits: 0 });
}

function msText(ms: number): string {
  return `${Number(ms.toPrecision(2))} ms`;
}

function bytesText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** power).toPrecision(bytes >= 1024 ** power * 100 ? 3 : 2))} ${units[power]}`;
}
