/** Main thread: gauges of a step for a canister's observer. Touches nothing else. */
import type { CanisterGauges } from '../index.ts';
import type { StepRecord } from '../wire/step-record.ts';

/** One object, filled again and again: `ended` copies what it keeps. */
const gauges: { -readonly [K in keyof CanisterGauges]: CanisterGauges[K] } = {
  heapBytes: 0,
  stableBytes: 0,
  version: 0,
  charge: 0,
  balance: undefined,
  instantMs: 0,
  loggedInstructions: 0,
};

export function gaugesOf(record: StepRecord): CanisterGauges {
  gauges.heapBytes = record.heapBytes;
  gauges.stableBytes = record.stableBytes;
  gauges.version = record.version;
  gauges.charge = record.step.charge;
  gauges.balance = record.balance;
  gauges.instantMs = record.instantMs;
  gauges.loggedInstructions = record.loggedInstructions;
  return gauges;
}
