import type { Audience } from '../broadcast.ts';

/** The newest event of each kind, which viewers are to have seen; older ones need not be told any more. */
export interface Scene {
  /** Counts changes of code; its event goes before the answer. */
  readonly codeChanges: number;
  readonly codeFrame: Uint8Array;
  /** Undefined while there is no answer. */
  readonly answer: Answer | undefined;
  /** The last thing that all are told; undefined: more may come. */
  readonly endFrame: Uint8Array | undefined;
}

export interface Answer {
  /**
   * Id of the answer, the same for the same answer in every process: a client that comes back names the last one that
   * it had.
   */
  readonly id: string;
  readonly frame: Uint8Array;
}

/** The way to a client: a stream of its own, or its part of a stream of several queries. */
export interface ViewerStream {
  /** Sends whole frames; `id` is the one in an answer's frame. Returns false if the client takes no more for now. */
  send(frame: Uint8Array, id?: string): boolean;
  end(): void;
}

/** One client that watches. */
export class Viewer {
  stream: ViewerStream | undefined;
  seenId: string | undefined;
  seenCodeChanges: number;
  /** True if the viewer takes no more for now. */
  isFull = false;
  /** The viewer's place among the viewers. */
  at = -1;

  constructor(lastEventId: string | undefined, codeChanges: number) {
    this.seenId = lastEventId;
    this.seenCodeChanges = codeChanges;
  }
}

/** The viewers of one query. A slow viewer holds one answer, and gets the newest one when it has taken that. */
export class Viewers implements Audience {
  readonly #viewers: Viewer[] = [];
  readonly #scene: () => Scene;
  /** The next viewer to be told, and the number of viewers from there on that may be behind. */
  #next = 0;
  #behind = 0;

  constructor(scene: () => Scene) {
    this.#scene = scene;
  }

  get size(): number {
    return this.#viewers.length;
  }

  add(viewer: Viewer): void {
    viewer.at = this.#viewers.push(viewer) - 1;
    this.#walkAll();
    this.tell(viewer);
  }

  remove(viewer: Viewer): void {
    const last = this.#viewers.pop();
    if (last === undefined || last === viewer) return;
    last.at = viewer.at;
    this.#viewers[viewer.at] = last;
    this.#walkAll();
  }

  /** Places have changed under the walk: it goes over all once more, and those that were told cost a look. */
  #walkAll(): void {
    if (this.#behind > 0) this.#behind = this.#viewers.length;
  }

  /** Notes that all viewers are behind. */
  changed(): void {
    this.#behind = this.#viewers.length;
  }

  tellSome(count: number): boolean {
    this.#behind = Math.min(this.#behind, this.#viewers.length);
    for (let told = 0; told < count && this.#behind > 0; told++) {
      if (this.#next >= this.#viewers.length) this.#next = 0;
      const viewer = this.#viewers[this.#next++];
      this.#behind--;
      if (viewer !== undefined) this.tell(viewer);
    }
    return this.#behind > 0;
  }

  tell(viewer: Viewer): void {
    const { stream } = viewer;
    if (stream === undefined || viewer.isFull) return;
    const { codeChanges, codeFrame, answer, endFrame } = this.#scene();
    if (viewer.seenCodeChanges !== codeChanges) {
      viewer.seenCodeChanges = codeChanges;
      viewer.isFull = !stream.send(codeFrame);
    }
    if (answer !== undefined && viewer.seenId !== answer.id) {
      viewer.seenId = answer.id;
      viewer.isFull = !stream.send(answer.frame, answer.id);
    }
    if (endFrame === undefined) return;
    viewer.stream = undefined;
    stream.send(endFrame);
    stream.end();
  }
}
