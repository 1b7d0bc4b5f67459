/** Totals of a canister's queries from clients. */
class QueryActivity {
  calls = 0;
  instructions = 0;
  requestBytes = 0;
  responseBytes = 0;
}

const NO_QUERIES = new QueryActivity();

/** Counters of a canister's messages in this process; made with the first one. */
export class CanisterActivity {
  messagesByName = 0;
  trapsByName = 0;
  messagesById = 0;
  trapsById = 0;
  /** Made with its first query. */
  queries = NO_QUERIES;

  countQuery(instructions: number, requestBytes: number, responseBytes: number): void {
    if (this.queries === NO_QUERIES) this.queries = new QueryActivity();
    const { queries } = this;
    queries.calls++;
    queries.instructions += instructions;
    queries.requestBytes += requestBytes;
    queries.responseBytes += responseBytes;
  }
}

/** Activity of canisters that have done nothing. */
export const NO_ACTIVITY: Readonly<CanisterActivity> = new CanisterActivity();
