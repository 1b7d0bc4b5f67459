/**
 * A sleeping canister as its executor keeps it for a while: its stored state, without the way to the tables and back.
 *
 * Canisters of one module have nearly the same heap: the content that the module and its start have put there. So the
 * first canister of a module that falls asleep leaves a template of its heap, and only the differences from it are kept
 * of each one: for a 64-bit Motoko counter 3 KB, of 192 KiB. A canister that differs in more than half of its heap gets
 * a template of its own if that takes less than the differences, or if it replaces the module's template: when it is no
 * larger, or when hardly any canister uses the old one.
 *
 * Only canisters are packed that are stored by their changes, in heaps whose used pages are known (heap-tally.ts): the
 * others are large, or have a log. The packed state equals the stored state, to the byte, so it may be lost at any
 * time.
 *
 * Executor thread, between two messages of the canister that it touches.
 */
import { PAGE_BYTES, PageEntries, type PageSink, NO_BYTES } from '../../bytes/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import type { SleepingCanister } from '../index.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { PAGE } from '../memory/heap-tally.ts';
import type { HeapTemplate, HeapTemplates } from '../memory/heap-template.ts';
import type { PackedHeap, PackedMemory, PackedPages } from '../memory/packed-memory.ts';
import { inOneGo } from '../memory/pieces.ts';

/** The most bytes of heap and stable memory that a packed canister may have. */
const PACKED_BYTES_MAX = 4 * 2 ** 20;
/** Approximate size of a canister's objects. */
const OBJECT_BYTES = 1024;

/** The canister's state as storage and the main thread would give it. See `SleepingCanister`. */
export interface PackedCanister extends Pick<
  SleepingCanister,
  'spec' | 'settings' | 'timerNs' | 'heapBytes' | 'stablePages' | 'copy' | 'globals' | 'certifiedData'
> {
  /** Undefined: the canister has no code. */
  readonly code: InstrumentedCode | undefined;
  readonly memory: PackedMemory;
  /** Bytes that the canister takes without the template. */
  readonly bytes: number;
}

/** Packs the canisters of one thread. */
export class CanisterPacker {
  readonly #templates: HeapTemplates;
  #pages: { entries: number; bytes: Uint8Array }[] = [];
  #bytes = 0;
  readonly #sink: PageSink = (entries, bytes) => {
    this.#pages.push({ entries, bytes: bytes.slice() });
    this.#bytes += bytes.length;
  };

  readonly #entries = new PageEntries(this.#sink, ENTRIES_AT_ONCE);

  constructor(templates: HeapTemplates) {
    this.#templates = templates;
  }

  /**
   * Returns the packed state of a canister whose state is all stored; undefined: the canister is not of the kind that
   * is packed.
   */
  pack(canister: CanisterState): PackedCanister | undefined {
    const { installed, stable, persistence, certifiedData, openCalls } = canister;
    if (persistence === undefined || persistence.isLogged || openCalls.total > 0) return undefined;
    const code = installed?.instance.code;
    const marks = installed?.instance.marks;
    if (installed !== undefined && marks === undefined) return undefined;
    const pages = installed?.instance.usedPages ?? 0;
    if (pages * PAGE_BYTES + stable.storedBytes > PACKED_BYTES_MAX) return undefined;
    this.#bytes = 0;
    inOneGo(stable.addTo(this.#entries));
    const stablePages = this.#take();
    const heap = code && marks && this.#heap(code, installed?.instance.heap() ?? NO_BYTES, marks);
    const globals = installed?.instance.saveGlobals() ?? NO_BYTES;
    const bytes = this.#bytes + globals.length + certifiedData.length + OBJECT_BYTES;
    const { id, account, settings, facts } = canister;
    const { controllers, env } = settings;
    return {
      spec: {
        id,
        balance: account.balance,
        controllers,
        env,
        facts,
        snapshotBelowBytes: persistence.snapshotBelowBytes,
      },
      settings,
      timerNs: canister.timerNs,
      code,
      heapBytes: installed?.instance.heapBytes ?? 0,
      stablePages: stable.pages,
      memory: { isPacked: true, heap, stable: stablePages },
      copy: persistence.copy,
      globals,
      certifiedData,
      bytes,
    };
  }

  #heap(code: InstrumentedCode, heap: Uint8Array, marks: Uint8Array): PackedHeap {
    const template = this.#templates.of(code);
    if (template !== undefined && template.pages <= marks.length) {
      const before = this.#bytes;
      this.#changes(template, heap, marks);
      const changes = this.#take();
      const changedBytes = this.#bytes - before;
      if (changedBytes * 2 <= template.bytes.length) return { template, changes };
      const own = this.#templates.makeIfBetter(code, heap, marks, changedBytes);
      if (own === undefined) return { template, changes };
      this.#bytes = before;
      return { template: own, changes: [] };
    }
    return { template: this.#templates.make(code, heap, marks), changes: [] };
  }

  #changes(template: HeapTemplate, heap: Uint8Array, marks: Uint8Array): void {
    const entries = this.#entries;
    for (let page = marks.indexOf(PAGE.USED); page >= 0; page = marks.indexOf(PAGE.USED, page + 1)) {
      const slot = template.slotOf(page);
      const at = page * PAGE_BYTES;
      if (template.isSame(slot, heap, at)) continue;
      if (slot < 0) entries.addFilled(page, heap, at);
      else entries.addChanged(page, template.bytes, slot * PAGE_BYTES, heap, at);
    }
    // Pages that only the template has.
    for (const [slot, page] of template.numbers.entries())
      if (marks[page] !== PAGE.USED) entries.addChanged(page, template.bytes, slot * PAGE_BYTES, ZEROS, 0);
  }

  #take(): PackedPages {
    this.#entries.end();
    const pages = this.#pages;
    // A new array even if nothing was collected: later entries must not be added to an array that was handed out.
    this.#pages = [];
    return pages;
  }
}

/** Pages in the buffer in which entries are made: each time it is full, one more piece of memory is kept. */
const ENTRIES_AT_ONCE = 16;
const ZEROS = new Uint8Array(PAGE_BYTES);
