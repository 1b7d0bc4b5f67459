// Plain JavaScript for another runtime, whose types are not installed here.
/* oxlint-disable typescript/no-unsafe-argument, typescript/no-unsafe-assignment, typescript/no-unsafe-call, typescript/no-unsafe-member-access, typescript/no-unsafe-return */

// Many counters, each an object of its own: POST /<name> adds one and stores it; GET /<name> reads what is in memory.
// The output gate holds an answer back until the write that went before it is on disk.
import { DurableObject } from 'cloudflare:workers';

export class Counter extends DurableObject {
  constructor(context, environment) {
    super(context, environment);
    this.count = context.storage.kv.get('count') ?? 0;
  }

  get() {
    return this.count;
  }

  inc() {
    this.count += 1;
    this.ctx.storage.kv.put('count', this.count);
    return this.count;
  }
}

export default {
  async fetch(request, environment) {
    const counter = environment.COUNTER.getByName(new URL(request.url).pathname.slice(1));
    return new Response(String(request.method === 'POST' ? await counter.inc() : await counter.get()));
  },
};
