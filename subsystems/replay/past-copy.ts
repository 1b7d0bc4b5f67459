import { ActorCopy } from '../copies/index.ts';
import type { CanisterSpec, Execution, ModuleInfo } from '../execution/index.ts';
import type { PastMessage } from '../timeline/index.ts';

type Past = PastMessage['before'];

/** Resolves with a copy that has the state, the settings, the cycles and the version of then, and that timer. */
export async function pastCopy(
  execution: Execution,
  { id, module, past, timerNs }: { id: Uint8Array; module: ModuleInfo; past: Past; timerNs: bigint },
  terms: ConstructorParameters<typeof ActorCopy>[3],
): Promise<ActorCopy> {
  // Without code there is nothing but the actor's settings and cycles.
  const image = past.moduleHash === undefined ? undefined : past.image;
  const copy = await ActorCopy.withState(execution, specOf(id, past), module, image, terms);
  const { version, status, timeMs, settings } = past;
  copy.stand(timeMs, { version, status, timerNs, heapBytesMax: settings.heapBytesMax });
  return copy;
}

function specOf(id: Uint8Array, { balance, settings }: Past): CanisterSpec {
  const { controllers, environment: env, facts } = settings;
  return { id, balance, controllers, env, facts };
}
