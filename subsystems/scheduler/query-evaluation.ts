/**
 * A composite query over all its executions: how deep it is, and what is left to it. Main thread; plain data.
 */

/** Levels of composite queries below the first (docs/execution-rules.md, "Composite queries"). */
export const QUERY_DEPTH_MAX = 6;
/** Calls of one composite query, over all levels. */
export const QUERY_CALLS_MAX = 500;

/** State that all executions of one composite query share. */
export class QueryEvaluation {
  readonly depth: number;
  readonly budget: {
    instructionsLeft: number;
    callsLeft: number;
    /** The newest change of any canister it has seen. */
    lastUnit: number;
  };
  /** The place of the client's query among all composite queries, in the order in which they came. */
  readonly ticket: number;

  constructor(depth: number, budget: QueryEvaluation['budget'], ticket: number) {
    this.depth = depth;
    this.budget = budget;
    this.ticket = ticket;
  }

  /** Returns the part of the query that a call of this part is. */
  called(): QueryEvaluation {
    return new QueryEvaluation(this.depth + 1, this.budget, this.ticket);
  }

  /** Notes that the query has seen the state of a canister whose newest change is in that unit. */
  saw({ lastUnit }: { readonly lastUnit: number }): void {
    if (lastUnit > this.budget.lastUnit) this.budget.lastUnit = lastUnit;
  }
}
