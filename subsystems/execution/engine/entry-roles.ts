/** Executor thread: the role of each entry point of a module. Reads the module's layout; touches nothing. */
import type { EntryRole } from './canister-state.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';

const PREFIXES: readonly (readonly [string, EntryRole])[] = [
  ['canister_update ', 'update'],
  ['canister_query ', 'query'],
  ['canister_composite_query ', 'composite_query'],
];
const HOOKS: Readonly<Record<string, EntryRole>> = {
  canister_global_timer: 'timer',
  canister_heartbeat: 'task',
  canister_on_low_wasm_memory: 'task',
  canister_inspect_message: 'inspect',
};

const known = new WeakMap<InstrumentedCode, readonly EntryRole[]>();

/** Returns the role of each entry point of a module, computed once for each module. */
export function rolesOf(code: InstrumentedCode): readonly EntryRole[] {
  let roles = known.get(code);
  if (roles === undefined) {
    roles = code.layout.entries.map(roleOf);
    known.set(code, roles);
  }
  return roles;
}

function roleOf(exported: string): EntryRole {
  for (const [prefix, role] of PREFIXES) if (exported.startsWith(prefix)) return role;
  return HOOKS[exported] ?? 'hook';
}
