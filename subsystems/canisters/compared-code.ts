/** The parts of a module that upgrades compare, and their lines in the log. */
import type { Logger } from '../../kernel/index.ts';
import type { ComparedCode } from '../compatibility/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { CanisterRecord, RecordedCode } from './canister-record.ts';
import { isInternalMethod } from './index.ts';

/** The signature of the stable variables, as Motoko's compiler writes it. */
const STABLE_SECTION = 'motoko:stable-types';
/** Characters of a signature in the log; a longer line helps nobody, and a module may carry a mebibyte. */
const LOGGED_CHARACTERS_MAX = 64 * 1024;
const EMPTY: ComparedCode = { stableTypes: undefined, candid: undefined, methods: new Map() };

export function comparedCode(code: RecordedCode | undefined): ComparedCode {
  if (code === undefined) return EMPTY;
  const { module, candid } = code;
  return {
    stableTypes: stableTypesOf(module),
    candid,
    methods: new Map([...module.methods].filter(([method]) => !isInternalMethod(method))),
  };
}

/** The event `stable-types-changed`, if they have. */
export function tellStableTypes(
  log: Logger,
  record: Pick<CanisterRecord, 'name' | 'idHex' | 'module'>,
  to: ModuleInfo,
): void {
  const [before, after] = [textOf(record.module), textOf(to)];
  if (before === after) return;
  log.event(
    'stable-types-changed',
    { actor: record.idHex, old: before, new: after },
    `the stable variables of ${record.name} have changed`,
  );
}

function stableTypesOf(module: ModuleInfo | undefined): Uint8Array | undefined {
  return module?.metadata.get(STABLE_SECTION)?.content;
}

function textOf(module: ModuleInfo | undefined): string {
  const text = Buffer.from(stableTypesOf(module) ?? []).toString('utf8');
  return text.length > LOGGED_CHARACTERS_MAX ? `${text.slice(0, LOGGED_CHARACTERS_MAX)}…` : text;
}
