/** Main thread: a list in the order of last use. Touches the nodes of what is in it alone. */

/** Something that may be in a list. */
interface Listed<T> {
  /** The place in the list; undefined: none was asked for yet. */
  lruNode: LruNode<T> | undefined;
}

export class LruNode<T> {
  /** Undefined: it is the end of the list. */
  readonly value: T | undefined;
  /** Bytes of memory that the value takes, as last counted. */
  bytes = 0;
  /** Somebody has used the value since it was put in its place, not only its own heartbeats and timers. */
  isUsed = false;
  /** When the value was woken, ms since 1970; and until when it keeps its place even if it is idle. */
  sinceMs = 0;
  turnEndMs = 0;
  /** The neighbours; undefined: the node is not in the list. */
  colder: LruNode<T> | undefined = undefined;
  warmer: LruNode<T> | undefined = undefined;

  constructor(value: T | undefined) {
    this.value = value;
  }
}

/** Made when first asked for. */
export function lruNodeOf<T extends Listed<T>>(value: T): LruNode<T> {
  return (value.lruNode ??= new LruNode(value));
}

/**
 * Idle elements, the one that has been idle for longest first. A ring of nodes: a node with neighbours is in it, and
 * every change takes constant time.
 */
export class LruList<T extends Listed<T>> {
  /** Stands between the warmest and the coldest. */
  readonly #end = new LruNode<T>(undefined);

  constructor() {
    this.#end.colder = this.#end;
    this.#end.warmer = this.#end;
  }

  /** The value is the warmest now. */
  touch(value: T): void {
    this.#insert(value, this.#end.colder ?? this.#end);
  }

  /** The value is the coldest now. */
  addColdest(value: T): void {
    this.#insert(value, this.#end);
  }

  #insert(value: T, colder: LruNode<T>): void {
    const node = lruNodeOf(value);
    // The node may be its own neighbour.
    const neighbour = colder === node ? (node.colder ?? this.#end) : colder;
    this.remove(value);
    const warmer = neighbour.warmer ?? neighbour;
    node.colder = neighbour;
    node.warmer = warmer;
    neighbour.warmer = node;
    warmer.colder = node;
  }

  remove({ lruNode }: T): void {
    if (lruNode?.colder === undefined || lruNode.warmer === undefined) return;
    lruNode.colder.warmer = lruNode.warmer;
    lruNode.warmer.colder = lruNode.colder;
    lruNode.colder = undefined;
    lruNode.warmer = undefined;
  }

  /** The coldest first; nothing is put into the list or taken out meanwhile. */
  *fromColdest(): Generator<T> {
    for (let node = this.#end.warmer; node?.value !== undefined; node = node.warmer) yield node.value;
  }
}
