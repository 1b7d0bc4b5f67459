/** Main thread: the list of idle canisters. Touches their places in it alone. */
import type { Agenda } from './agenda.ts';

/** A canister's place among those that are awake, or waking. */
export class Seat {
  /** Undefined: it is the end of the list. */
  readonly agenda: Agenda | undefined;
  /** Bytes of memory it takes, as last counted. */
  bytes = 0;
  /** Its neighbours in the list of idle canisters. */
  colder: Seat | undefined = undefined;
  warmer: Seat | undefined = undefined;

  constructor(agenda: Agenda | undefined) {
    this.agenda = agenda;
  }
}

/** Made when first asked for. */
export function seatOf(agenda: Agenda): Seat {
  return (agenda.seat ??= new Seat(agenda));
}

/**
 * The canisters that are awake and idle, the one that has been so for longest first. A ring through their seats: whoever
 * has neighbours is in it, and every change takes constant time. Busy ones are no victims, so they are not in it.
 */
export class LiveSet {
  /** Stands between the warmest and the coldest. */
  readonly #end = new Seat(undefined);

  constructor() {
    this.#end.colder = this.#end;
    this.#end.warmer = this.#end;
  }

  /** It is the warmest now. */
  touch(agenda: Agenda): void {
    this.remove(agenda);
    const seat = seatOf(agenda);
    const end = this.#end;
    const warmest = end.colder ?? end;
    seat.colder = warmest;
    seat.warmer = end;
    warmest.warmer = seat;
    end.colder = seat;
  }

  remove({ seat }: Agenda): void {
    if (seat?.colder === undefined || seat.warmer === undefined) return;
    seat.colder.warmer = seat.warmer;
    seat.warmer.colder = seat.colder;
    seat.colder = undefined;
    seat.warmer = undefined;
  }

  get coldest(): Agenda | undefined {
    return this.#end.warmer?.agenda;
  }
}
