/** Facts that are kept of an actor besides its files: its newest message, and names of points. Timeline thread. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import type { Place } from './index.ts';
import { checkLabel } from './time-point.ts';

const PRIVATE = { mode: 0o600 };
const LABELS_MAX = 64;
const SHOWN_CHARACTERS_MAX = 64;

/** A label: its place, and the files that its state is read from. */
interface Label extends Place {
  readonly from: number;
  readonly to: number;
}

interface Facts {
  readonly seq: number;
  readonly unit: number;
  readonly labels: Readonly<Record<string, Label>>;
}

export class AboutActor {
  readonly #directory: string;
  #facts: Facts = { seq: 0, unit: 0, labels: {} };

  constructor(directory: string) {
    this.#directory = directory;
  }

  get #path(): string {
    return join(this.#directory, 'about.json');
  }

  /** Returns the newest message and unit when the facts were kept last. */
  read(): Pick<Place, 'seq' | 'unit'> {
    if (existsSync(this.#path)) this.#facts = JSON.parse(readFileSync(this.#path, 'utf8')) as Facts;
    return this.#facts;
  }

  keep({ seq, unit }: Pick<Place, 'seq' | 'unit'>, labels = this.#facts.labels): void {
    this.#facts = { seq, unit, labels };
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    writeFileSync(`${this.#path}.new`, JSON.stringify(this.#facts), PRIVATE);
    renameSync(`${this.#path}.new`, this.#path);
  }

  /** Returns true if a label needs the file. */
  isPinned(file: number): boolean {
    return Object.values(this.#facts.labels).some(({ from, to }) => from <= file && file <= to);
  }

  /** Throws ServerError `label-missing`. */
  placeOf(label: string): Place {
    const { labels } = this.#facts;
    const place = Object.hasOwn(labels, label) ? labels[label] : undefined;
    if (place !== undefined) return place;
    const names = Object.keys(labels);
    const there = names.length === 0 ? 'this actor has none' : `this actor has ${names.join(', ')}`;
    const shown = label.slice(0, SHOWN_CHARACTERS_MAX);
    throw new ServerError('missing', 'label-missing', `there is no label ${shown}; ${there}`);
  }

  /** Throws ServerError `label-bad`, `label-exists` or `labels-full` unless the name can be given. */
  checkNew(label: string): void {
    checkLabel(label);
    const { labels } = this.#facts;
    if (Object.hasOwn(labels, label))
      throw new ServerError('invalid', 'label-exists', `there is a label ${label} already: DELETE it first`);
    if (Object.keys(labels).length >= LABELS_MAX)
      throw new ServerError('invalid', 'labels-full', `an actor has at most ${LABELS_MAX} labels: DELETE one first`);
  }

  give(name: string, label: Label, newest: Pick<Place, 'seq' | 'unit'>): void {
    this.keep(newest, { ...this.#facts.labels, [name]: label });
  }

  /** Throws ServerError `label-missing`. */
  free(name: string, newest: Pick<Place, 'seq' | 'unit'>): void {
    this.placeOf(name);
    this.keep(newest, Object.fromEntries(Object.entries(this.#facts.labels).filter(([each]) => each !== name)));
  }
}
