import { Agenda } from './agenda.ts';

/**
 * The canisters that are awake and idle, the one that has been so for longest first. A ring through the agendas: whoever
 * has neighbours is in it, and every change takes constant time. Busy ones are no victims, so they are not in it.
 */
export class LiveSet {
  /** Stands between the warmest and the coldest. */
  readonly #end = new Agenda(-1, new Uint8Array(0));

  constructor() {
    this.#end.colder = this.#end;
    this.#end.warmer = this.#end;
  }

  /** It is the warmest now. */
  touch(agenda: Agenda): void {
    this.remove(agenda);
    const end = this.#end;
    const warmest = end.colder ?? end;
    agenda.colder = warmest;
    agenda.warmer = end;
    warmest.warmer = agenda;
    end.colder = agenda;
  }

  remove(agenda: Agenda): void {
    const { colder, warmer } = agenda;
    if (colder === undefined || warmer === undefined) return;
    colder.warmer = warmer;
    warmer.colder = colder;
    agenda.colder = undefined;
    agenda.warmer = undefined;
  }

  get coldest(): Agenda | undefined {
    const coldest = this.#end.warmer;
    return coldest === this.#end ? undefined : coldest;
  }
}
