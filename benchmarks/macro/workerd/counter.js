// Plain JavaScript for another runtime, whose types are not installed here.
/* oxlint-disable typescript/no-unsafe-assignment, typescript/no-unsafe-call, typescript/no-unsafe-member-access, typescript/no-unsafe-return */

// The counter of the examples as a Durable Object: GET reads what is in memory, POST adds one and stores it.
import { DurableObject } from 'cloudflare:workers';

export class Counter extends DurableObject {
  constructor(context, environment) {
    super(context, environment);
    void context.blockConcurrencyWhile(async () => {
      this.count = (await context.storage.get('count')) ?? 0;
    });
  }

  get() {
    return this.count;
  }

  inc() {
    this.count += 1;
    // Not awaited: the answer is held back until the write is through.
    void this.ctx.storage.put('count', this.count);
    return this.count;
  }
}

export default {
  async fetch(request, environment) {
    const counter = environment.COUNTER.getByName('counter');
    return new Response(String(request.method === 'POST' ? await counter.inc() : await counter.get()));
  },
};
