/** What a canister has done in this process; made with its first message. */
export class CanisterActivity {
  readonly idHex: string;
  messagesByName = 0;
  trapsByName = 0;
  messagesById = 0;
  trapsById = 0;
  queryCalls = 0;
  queryInstructions = 0;
  queryRequestBytes = 0;
  queryResponseBytes = 0;

  /** `idHex` is here because every answer tells it, and those who sleep all the time need not have it ready. */
  constructor(idHex: string) {
    this.idHex = idHex;
  }
}

/** Of those that have done nothing. */
export const NO_ACTIVITY: Readonly<CanisterActivity> = new CanisterActivity('');
