/** A line of debug output in the ring: the executor writes it, the main thread reads it (wire.ts). */
import type { MessagePort } from 'node:worker_threads';
import type { RingConsumer, RingProducer } from '../../threads/index.ts';
import type { OutputLine } from '../../ic/index.ts';
import { DEBUG } from './wire.ts';
import { inlineBytes, lengthField, readBytes, wordAt, writeBytes } from './ring-bytes.ts';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

// ---- DEBUG
const D = { HANDLE: 0, RECORD: 4, TEXT_LENGTH: 8, LENGTH: 12, DATA: 16 } as const;
/** Text that the canister's log gets for a line: none, the same, or another. */
const RECORD = { NONE: 0, SAME: 1, OWN: 2 } as const;

/** Returns false if the ring is full now. */
export function writeDebug(
  ring: RingProducer,
  port: MessagePort,
  handle: number,
  { text, record }: OutputLine,
): boolean {
  const kind = record === undefined ? RECORD.NONE : record === text ? RECORD.SAME : RECORD.OWN;
  const textBytes = Buffer.from(text);
  const data = kind === RECORD.OWN ? Buffer.concat([textBytes, Buffer.from(record ?? '')]) : textBytes;
  const at = ring.reserve(DEBUG, D.DATA + inlineBytes(data));
  if (at < 0) return false;
  const { words } = ring;
  words[(at + D.HANDLE) >> 2] = handle;
  words[(at + D.RECORD) >> 2] = kind;
  words[(at + D.TEXT_LENGTH) >> 2] = textBytes.length;
  words[(at + D.LENGTH) >> 2] = lengthField(data);
  writeBytes(ring, port, at + D.DATA, data, false);
  return true;
}

export function readDebug(ring: RingConsumer, port: MessagePort, at: number): OutputLine {
  const word = (offset: number): number => wordAt(ring.words, at + offset);
  const data = readBytes(ring, port, at + D.DATA, word(D.LENGTH));
  const textLength = word(D.TEXT_LENGTH);
  const text = decoder.decode(data.subarray(0, textLength));
  const kind = word(D.RECORD);
  const own = kind === RECORD.OWN ? decoder.decode(data.subarray(textLength)) : undefined;
  return { text, record: kind === RECORD.SAME ? text : own };
}
