/**
 * Names of an archive's files. They sort by epoch and first unit, and say what a listing has to tell:
 *
 *     DIR/20261121T200000-5f3a09c1/    a line: one history of one state
 *         000001.epoch                 who writes it since then
 *         000001-000000000000100-20261121T200000000Z.base          a backup; counts once its marker is there
 *         000001-000000000000100-20261121T200000000Z.base.json     its marker
 *         000001-000000000000101-000000000000220-20261121T200009123Z.units     a segment, and its last unit's time
 *
 * Each start of a server that archives is an epoch of its own, so no two of them write the same name.
 */

export interface SegmentName {
  readonly epoch: number;
  readonly first: number;
  readonly last: number;
  /** Time of the last unit, in milliseconds since 1970. */
  readonly timeMs: number;
}

export interface BaseName {
  readonly epoch: number;
  readonly unit: number;
  readonly timeMs: number;
}

const EPOCH_DIGITS = 6;
const UNIT_DIGITS = 15;
const LINE = /^\d{8}T\d{6}-[0-9a-f]{8}$/;
const SEGMENT = /^(\d{6})-(\d{15})-(\d{15})-(\d{8}T\d{9}Z)[.]units$/;
const BASE = /^(\d{6})-(\d{15})-(\d{8}T\d{9}Z)[.]base$/;
const EPOCH = /^(\d{6})[.]epoch$/;
/** Suffix of the marker of a base, behind the base's name. */
export const MARKER = '.json';

export function isLineName(name: string): boolean {
  return LINE.test(name);
}

/** `salt`: four bytes. */
export function lineName(timeMs: number, salt: Uint8Array): string {
  return `${stamp(timeMs).slice(0, 15)}-${Buffer.from(salt).toString('hex')}`;
}

export function epochFile(epoch: number): string {
  return `${digits(epoch, EPOCH_DIGITS)}.epoch`;
}

export function epochOf(name: string): number | undefined {
  const [, epoch] = EPOCH.exec(name) ?? [];
  return epoch === undefined ? undefined : Number(epoch);
}

export function segmentFile({ epoch, first, last, timeMs }: SegmentName): string {
  return `${digits(epoch, EPOCH_DIGITS)}-${digits(first, UNIT_DIGITS)}-${digits(last, UNIT_DIGITS)}-${stamp(timeMs)}.units`;
}

export function baseFile({ epoch, unit, timeMs }: BaseName): string {
  return `${digits(epoch, EPOCH_DIGITS)}-${digits(unit, UNIT_DIGITS)}-${stamp(timeMs)}.base`;
}

export function parseSegmentFile(name: string): SegmentName | undefined {
  const [, epoch, first, last, time = ''] = SEGMENT.exec(name) ?? [];
  if (epoch === undefined) return undefined;
  return { epoch: Number(epoch), first: Number(first), last: Number(last), timeMs: timeOf(time) };
}

export function parseBaseFile(name: string): BaseName | undefined {
  const [, epoch, unit, time = ''] = BASE.exec(name) ?? [];
  return epoch === undefined ? undefined : { epoch: Number(epoch), unit: Number(unit), timeMs: timeOf(time) };
}

function digits(value: number, count: number): string {
  return String(value).padStart(count, '0');
}

/** `20261121T200009123Z`: milliseconds rounded up, so that the moment is not after what the name says. */
function stamp(timeMs: number): string {
  return new Date(Math.ceil(timeMs)).toISOString().replaceAll(/[-:.]/g, '');
}

function timeOf(text: string): number {
  const [, year, month, day, hour, minute, second, ms] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/.exec(text) ?? [];
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
}
