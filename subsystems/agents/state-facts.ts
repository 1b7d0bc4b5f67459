/** The part of the state tree that a request may read, as facts: what is there is told, and the rest is absent. */
import { ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import { CborWriter, type Fact, type HostIdentity, type Path } from '../certification/index.ts';
import { ANONYMOUS, sameBytes, shownCaller } from '../ic/index.ts';
import { bad } from './envelope.ts';
import { isController } from './rejections.ts';

/** The one range of the one subnet: all ids that can be an actor's or the system's. */
const RANGE = { low: Buffer.from('00000000000000000101', 'hex'), high: Buffer.from('ffffffffffffffff0101', 'hex') };
const REQUEST_ID_BYTES = 32;
/** Labels of the longest path that there is below each first one: a witness of longer ones is work for nothing. */
const LABELS_MAX: Readonly<Record<string, number>> = {
  time: 1,
  // The key of a node of the subnet.
  subnet: 5,
  canister_ranges: 3,
  canister: 4,
  request_status: 3,
};
/** Sections that whoever may use the server may read, also if the module keeps them to its controllers. */
const INTERFACE: ReadonlySet<string> = new Set(['candid:service', 'candid:args']);

/** Parts of the state that the paths of a request ask for. */
interface AskedState {
  readonly asksSubnet: boolean;
  readonly asksRanges: boolean;
  readonly asksCanister: boolean;
  readonly metadata: readonly string[];
  /** The id of a request whose status is asked for. */
  readonly requestId: Uint8Array | undefined;
}

/**
 * Reads the paths. `canisterId`: the id of the route; undefined: the subnet's route. Throws ServerError
 * `agent-bad-request` for what nobody may read there, `agent-forbidden` for the status of two requests.
 */
export function readPaths(paths: readonly Path[], canisterId: Uint8Array | undefined): AskedState {
  const asked = { asksSubnet: false, asksRanges: false, asksCanister: false };
  const metadata: string[] = [];
  let requestId: Uint8Array | undefined;
  for (const [index, path] of paths.entries()) {
    const [first, second] = path;
    const refuse = (): ServerError => bad(`content.paths[${index}]`, `cannot be read here: /${shown(path)}`);
    const name = first === undefined ? '' : textOf(first);
    if (path.length > (LABELS_MAX[name] ?? 0)) throw refuse();
    switch (name) {
      case 'time':
        break;
      case 'subnet':
        asked.asksSubnet = true;
        break;
      case 'canister_ranges':
        if (canisterId !== undefined) throw refuse();
        asked.asksRanges = true;
        break;
      case 'canister': {
        if (canisterId === undefined || second === undefined || !sameBytes(second, canisterId)) throw refuse();
        const section = canisterFactOf(path);
        if (section === undefined) throw refuse();
        asked.asksCanister = true;
        if (section !== '') metadata.push(section);
        break;
      }
      case 'request_status':
        if (second?.length !== REQUEST_ID_BYTES) throw refuse();
        if (requestId !== undefined && !sameBytes(requestId, second))
          throw new ServerError('forbidden', 'agent-forbidden', 'one request asks for the status of one request');
        requestId = second;
        break;
      default:
        throw refuse();
    }
  }
  return { ...asked, metadata, requestId };
}

/** Returns the section that a path of a canister asks for, or '' for another fact; undefined: nothing readable. */
function canisterFactOf(path: Path): string | undefined {
  const [, , third, fourth] = path;
  switch (third === undefined ? '' : textOf(third)) {
    case 'module_hash':
    case 'controllers':
    case 'canister_creation_timestamp':
    case 'last_install_timestamp':
      return path.length === 3 ? '' : undefined;
    case 'metadata':
      return fourth !== undefined && path.length === 4 ? Buffer.from(fourth).toString('utf8') : undefined;
    default:
      return undefined;
  }
}

export function subnetFacts({ rootKey, subnetId, nodeKey, nodeId }: HostIdentity): readonly Fact[] {
  const below = (...names: readonly (string | Uint8Array)[]): Path => ['subnet', subnetId, ...names].map(labelOf);
  return [
    { path: below('public_key'), value: rootKey },
    { path: below('type'), value: Buffer.from('application') },
    { path: below('canister_ranges'), value: ranges() },
    { path: below('node', nodeId, 'public_key'), value: nodeKey },
  ];
}

export function rangeFacts({ subnetId }: HostIdentity): readonly Fact[] {
  return [{ path: ['canister_ranges', subnetId, RANGE.low].map(labelOf), value: ranges() }];
}

/**
 * Returns what is known of a canister. `isOpen`: strangers ask. Throws ServerError `agent-forbidden` for a section that
 * is for controllers.
 */
export function canisterFacts(
  canister: Pick<Canister, 'id' | 'module' | 'controllers'>,
  { metadata }: AskedState,
  sender: Uint8Array,
  isOpen: boolean,
): readonly Fact[] {
  const { id, module, controllers } = canister;
  const below = (...names: readonly string[]): Path => ['canister', id, ...names].map(labelOf);
  const list = new CborWriter().selfDescribed();
  // The anonymous principal is nobody's controller here.
  const named = controllers.filter((controller) => !sameBytes(controller, ANONYMOUS));
  list.array(named.length);
  for (const controller of named) list.bytes(shownCaller(controller));
  const facts: Fact[] = [{ path: below('controllers'), value: list.done() }];
  if (module === undefined) return facts;
  facts.push({ path: below('module_hash'), value: Buffer.from(module.hash, 'hex') });
  for (const name of metadata) {
    const section = module.metadata.get(name);
    if (section === undefined) continue;
    const mayRead = section.isPublic || (!isOpen && INTERFACE.has(name)) || isController(canister, sender);
    if (!mayRead)
      throw new ServerError('forbidden', 'agent-forbidden', `the section ${JSON.stringify(name)} is for controllers`);
    facts.push({ path: below('metadata', name), value: section.content });
  }
  return facts;
}

function ranges(): Uint8Array {
  return new CborWriter().selfDescribed().array(1).array(2).bytes(RANGE.low).bytes(RANGE.high).done();
}

/** Returns a label, given as text or as bytes. */
export function labelOf(name: string | Uint8Array): Uint8Array {
  return typeof name === 'string' ? Buffer.from(name) : name;
}

function textOf(label: Uint8Array): string {
  return Buffer.from(label).toString('latin1');
}

function shown(path: Path): string {
  return path
    .slice(0, 4)
    .map((label) =>
      /^[\w:-]{1,40}$/.test(textOf(label)) ? textOf(label) : `0x${Buffer.from(label).toString('hex', 0, 40)}`,
    )
    .join('/');
}
