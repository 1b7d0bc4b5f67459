/** A reply that is a Candid message already. */
export class CandidReply {
  readonly data: Uint8Array;

  constructor(data: Uint8Array) {
    this.data = data;
  }
}
