import { assert, messageOf } from '../../kernel/index.ts';
import type { Diagnostic } from './diagnostics.ts';
import type { StableVerdict } from './index.ts';
import { isStackOverflow } from './moc-instance.ts';
import { MOC_STACK_MB, type StableRequest } from './moc-protocol.ts';
import type { MocProcesses, MocProcessesOptions } from './moc-processes.ts';

/** The category of what makes a signature unfit to follow another; anything else keeps the compiler from comparing. */
const UNFIT = 'Compatibility';
/** Characters of the compiler's message about one variable that are shown; the types in it may be long. */
const MESSAGE_CHARACTERS_MAX = 1_000;
const MESSAGES_MAX = 10;

export const COMPARISON_PROCESSES: MocProcessesOptions = {
  // Comparisons of ordinary actors take milliseconds.
  timeLimitMs: 10_000,
  // A start takes a second; twenty where much else runs.
  startMsMax: 60_000,
  // An operator who upgrades one actor often upgrades another; an idle process that compares holds about 100 MB.
  idleMs: 30_000,
  processesMax: 1,
  keepsMemory: false,
};

/** Asks the bundled compiler. Never rejects. */
export async function compareStable(processes: MocProcesses, request: StableRequest): Promise<StableVerdict> {
  let response;
  try {
    response = await processes.run(request);
  } catch (error) {
    return { kind: 'unknown', reason: messageOf(error) };
  }
  if (response.kind === 'crashed') {
    const reason = isStackOverflow(response.reason)
      ? `the signatures are nested too deeply for the compiler's stack of ${MOC_STACK_MB} MB`
      : `the compiler gave up: ${response.reason}`;
    return { kind: 'unknown', reason };
  }
  assert(response.kind === 'compared', 'a process compiled instead of comparing');
  return verdictOf(response.diagnostics);
}

function verdictOf(diagnostics: readonly Diagnostic[]): StableVerdict {
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  const unreadable = errors.find(({ category }) => category !== UNFIT);
  if (unreadable !== undefined)
    return { kind: 'unknown', reason: `the compiler cannot read the signatures: ${textOf([unreadable])}` };
  if (errors.length > 0) return { kind: 'incompatible', message: textOf(errors) };
  return { kind: 'compatible', message: diagnostics.length === 0 ? undefined : textOf(diagnostics) };
}

function textOf(diagnostics: readonly Diagnostic[]): string {
  const texts = diagnostics.slice(0, MESSAGES_MAX).map(({ code, message }) => {
    const line = message.replaceAll(/\s+/g, ' ').trim().replace(/[.]$/, '');
    const cut = line.length > MESSAGE_CHARACTERS_MAX ? `${line.slice(0, MESSAGE_CHARACTERS_MAX)}…` : line;
    return `[${code}] ${cut}`;
  });
  if (diagnostics.length > MESSAGES_MAX) texts.push(`and ${diagnostics.length - MESSAGES_MAX} more`);
  return texts.join('; ');
}
