import type { OwnSettings, Visibility } from '../settings.ts';
import { type RecordReader, RecordWriter } from '../../bytes/index.ts';

const VISIBILITIES = ['controllers', 'public', 'viewers'] as const;

export function writeSettings(settings: OwnSettings): Uint8Array {
  const out = new RecordWriter();
  out.leb128(settings.computeAllocation);
  out.leb128(settings.memoryAllocation);
  out.leb128(settings.freezingThreshold);
  out.leb128(settings.reservedCyclesLimit);
  out.leb128(settings.minimumIncomingCanisterCallCycles);
  out.leb128(settings.wasmMemoryLimit);
  out.leb128(settings.wasmMemoryThreshold);
  writeVisibility(out, settings.logVisibility);
  writeVisibility(out, settings.snapshotVisibility);
  writeVisibility(out, settings.statusVisibility);
  return out.view();
}

export function readSettingsValue(value: RecordReader): OwnSettings {
  // Fields in the order in which they were written.
  const settings: OwnSettings = {
    computeAllocation: value.leb128(),
    memoryAllocation: value.leb128(),
    freezingThreshold: value.leb128(),
    reservedCyclesLimit: value.leb128(),
    minimumIncomingCanisterCallCycles: value.leb128(),
    wasmMemoryLimit: value.leb128(),
    wasmMemoryThreshold: value.leb128(),
    logVisibility: readVisibility(value),
    snapshotVisibility: readVisibility(value),
    statusVisibility: readVisibility(value),
  };
  value.close();
  return settings;
}

function writeVisibility(out: RecordWriter, visibility: Visibility): void {
  out.u8(VISIBILITIES.indexOf(visibility.kind));
  if (visibility.kind === 'viewers') out.list(visibility.viewers, (viewer) => out.data(viewer));
}

function readVisibility(value: RecordReader): Visibility {
  const kind = value.oneOf(VISIBILITIES);
  return kind === 'viewers' ? { kind, viewers: value.list(() => value.data().slice()) } : { kind };
}
