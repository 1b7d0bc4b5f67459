import type { OwnSettings, Visibility } from '../settings.ts';
import { type RecordReader, RecordWriter } from './record-bytes.ts';

const VISIBILITIES = ['controllers', 'public', 'viewers'] as const;

export function writeSettings(settings: OwnSettings): Uint8Array {
  const out = new RecordWriter()
    .natural(settings.computeAllocation)
    .natural(settings.memoryAllocation)
    .natural(settings.freezingThreshold)
    .natural(settings.reservedCyclesLimit)
    .natural(settings.minimumIncomingCanisterCallCycles)
    .natural(settings.wasmMemoryLimit)
    .natural(settings.wasmMemoryThreshold);
  writeVisibility(out, settings.logVisibility);
  writeVisibility(out, settings.snapshotVisibility);
  writeVisibility(out, settings.statusVisibility);
  return out.written();
}

export function readSettingsValue(value: RecordReader): OwnSettings {
  // In the order in which they were written.
  const settings: OwnSettings = {
    computeAllocation: value.natural(),
    memoryAllocation: value.natural(),
    freezingThreshold: value.natural(),
    reservedCyclesLimit: value.natural(),
    minimumIncomingCanisterCallCycles: value.natural(),
    wasmMemoryLimit: value.natural(),
    wasmMemoryThreshold: value.natural(),
    logVisibility: readVisibility(value),
    snapshotVisibility: readVisibility(value),
    statusVisibility: readVisibility(value),
  };
  value.end();
  return settings;
}

function writeVisibility(out: RecordWriter, visibility: Visibility): void {
  out.byte(VISIBILITIES.indexOf(visibility.kind));
  if (visibility.kind === 'viewers') out.list(visibility.viewers, (viewer) => out.bytes(viewer));
}

function readVisibility(value: RecordReader): Visibility {
  const kind = value.oneOf(VISIBILITIES);
  return kind === 'viewers' ? { kind, viewers: value.list(() => value.bytes()) } : { kind };
}
