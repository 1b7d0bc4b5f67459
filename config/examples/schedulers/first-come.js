/**
 * A whole scheduler, to copy and to change: docs/plugins.md, "A scheduler of your own", shows how to run it.
 *
 * First come, first served. An actor has at most one task at its executor, so executions of one call never overlap,
 * and nothing has to come back from the executor before a change of code. Nobody sleeps, and nothing outlives the
 * process: `supports` says so, and what is asked for all the same is refused.
 */
import { Clock, definePlugin, Execution, Scheduler, ServerError } from 'svc/plugin';
import { FULL_LIMIT, idFromText, idToText, notSupported, NOTED_ARGUMENT_BYTES_MAX } from 'svc/plugin/scheduler';
import { outcomeKindOf, principalToText, REJECT_CODE, slotOf, TAKEN_BACK } from 'svc/plugin/scheduler';

const { CANISTER_ERROR, CANISTER_REJECT, DESTINATION_INVALID, SYS_FATAL, SYS_TRANSIENT, SYS_UNKNOWN } = REJECT_CODE;
const refusal = (code, message) => ({ kind: code === SYS_TRANSIENT ? 'unavailable' : 'reject', code, message });
const STOPPING = refusal(SYS_TRANSIENT, 'the server is stopping');
const LOST = refusal(SYS_TRANSIENT, "the actor's thread has stopped");
const [HEARTBEAT, TIMER] = ['canister_heartbeat', 'canister_global_timer'];
const [LOW_MEMORY, INSPECT] = ['canister_on_low_wasm_memory', 'canister_inspect_message'];

/** An actor, what waits for it in order, and its calls in progress. */
class Actor {
  status = 'running';
  timerMs = undefined;
  firingMs = undefined;
  minimumCycles = 0n;
  isAsleep = false;
  queue = [];
  contexts = new Set();
  stopWaiters = new Set();
  restWaiters = [];
  /** Tasks and changes of code at the executor; locks that keep it from beginning; deletions that are under way. */
  given = 0;
  locks = 0;
  deletions = 0;

  constructor(handle, idText, { status = 'running', timerMs, module } = {}) {
    Object.assign(this, { handle, idText, status, timerMs, module, id: idFromText(idText) });
    this.name = `Canister ${principalToText(this.id)}`;
  }
  get storedStatus() {
    return this.isPaused ? 'running' : this.status;
  }
  get storedTimerMs() {
    return this.firingMs ?? this.timerMs;
  }
  get queued() {
    return this.queue.length;
  }
  get openCounts() {
    const calls = [...this.contexts].flatMap(({ open }) => [...open]);
    const bySlot = Map.groupBy(calls, ({ callbacks }) => slotOf(callbacks));
    bySlot.delete(0);
    return [...bySlot].map(([slot, its]) => ({ callee: its[0].callee, slot, count: its.length }));
  }
  setTimer(timerMs) {
    Object.assign(this, { timerMs, firingMs: undefined });
  }
  /** Returns why it takes no calls; undefined: it does. */
  refusal(isTransform = false) {
    if (this.isLost) return LOST;
    const isOpen = this.status === 'running' || (isTransform && this.status === 'stopping');
    if (!isOpen) return refusal(CANISTER_ERROR, `${this.name} is ${this.status}`);
    if (this.module === undefined && this.locks === 0) return refusal(CANISTER_ERROR, `${this.name} has no code`);
  }
}

/** A call in progress. `answer` is called once, with the answer and what is left of the cycles. */
class Context {
  open = new Set();
  instructions = 0;
  charge = 0;
  constructor(actor, caller, { answer, isClient = false, cycles = 0n, deadlineNs = 0n }) {
    Object.assign(this, { actor, caller, answer, isClient, cycles, deadlineNs });
  }
  /** Code of the actor is to run for it: a callback, or a call to itself. */
  get comesBack() {
    return this.open.size > 0 || (!this.isClient && idToText(this.caller) === this.actor.idText);
  }
  view() {
    const { caller, deadlineNs, cycles, instructions, answer } = this;
    return { caller, deadlineNs, instructions, cyclesAvailable: cycles, canAnswer: answer !== undefined };
  }
  /** Gives the answer, if it was not given before. */
  give(response, kind = response.kind) {
    const { answer, cycles, instructions, charge } = this;
    Object.assign(this, { answer: undefined, cycles: 0n });
    answer?.(response, { ...response, kind, instructions, charge }, cycles);
  }
}

/** First come, first served: an actor has one task at its executor at a time, and nothing outlives the process. */
export class FirstCome {
  supports = { durability: false, eviction: false, idempotencyKeys: false, compositeQueries: false };
  queuedMax = 10_000;
  idempotency = { keys: 0, bytes: 0, repeats: 0 };
  #actors = new Map();
  #handles = new Map();
  #limited = new Set();
  #intervals = [];

  constructor({ execution, clock }, config) {
    Object.assign(this, { execution, clock, config });
    execution.attend({
      changed: (handle, changes) => this.listener.changed(handle, changes),
      settled: () => Promise.resolve(),
      credited: (handle, balance) => this.listener.credited(handle, balance),
      lost: (handle) => this.#lost(handle),
    });
  }

  // ---- set up, and the end

  attachCanisters(_loader, listener) {
    this.listener = listener;
  }
  attach(systemCanister) {
    this.system = systemCanister;
  }
  async restoreAnswers() {}
  restore(entries) {
    for (const _ of entries) throw notSupported('durability');
  }
  begin() {
    const { 'heartbeat-ms': beatMs, 'timer-ms': timerMs } = this.config;
    if (beatMs > 0) this.#intervals.push(this.clock.every(beatMs, () => this.#beat()));
    this.#intervals.push(this.clock.every(timerMs, () => this.#fire(this.clock.nowMs())));
  }
  async drain() {
    this.isDraining = true;
    for (const interval of this.#intervals) interval[Symbol.dispose]();
    this.execution.refuseNew();
    const actors = [...this.#actors.values()];
    for (const actor of actors) this.#endAll(actor, STOPPING);
    for (const actor of actors) await this.#rest(actor);
  }

  // ---- who is there

  get live() {
    return { liveCount: this.#actors.size, evictions: 0, wakeUps: 0 };
  }
  admit(handle, idText, options = {}) {
    if (options.isAsleep || options.isUnloadable) throw notSupported('durability');
    this.#actors.set(handle, new Actor(handle, idText, options));
    this.#handles.set(idText, handle);
  }
  withdraw(handle) {
    const actor = this.stateOf(handle);
    this.#actors.delete(handle);
    this.#handles.delete(actor.idText);
    actor.isGone = true;
    for (const settle of actor.stopWaiters) settle('the canister is deleted');
    this.#endAll(actor, refusal(DESTINATION_INVALID, `No route to canister ${principalToText(actor.id)}`));
  }
  handleOf(id) {
    return this.#handles.get(idToText(id));
  }
  stateOf(handle) {
    const actor = this.#actors.get(handle);
    if (actor === undefined) throw new Error(`there is no canister ${handle}`);
    return actor;
  }
  setMinimumCycles(handle, cycles) {
    this.stateOf(handle).minimumCycles = cycles;
  }
  restored(handle, module, timerMs) {
    const actor = this.stateOf(handle);
    actor.module = module;
    if (timerMs !== undefined) actor.setTimer(Number.isFinite(timerMs) ? timerMs : undefined);
  }
  #lost(handle) {
    const actor = this.#actors.get(handle);
    if (actor === undefined) return;
    actor.isLost = true;
    this.#endAll(actor, LOST);
    this.listener.lost(handle);
  }
  /** Nothing that waits begins, and no call goes on; an execution under way may still answer its call. */
  #endAll(actor, reason) {
    for (const { context } of actor.queue.splice(0)) context.give(reason);
    for (const context of actor.contexts) this.#end(context, reason);
    this.#stopIfDone(actor);
  }
  #end(context, reason) {
    context.end = reason;
    if (!context.isExecuting) context.give(reason);
    context.actor.contexts.delete(context);
  }

  // ---- messages

  deliver(handle, { kind, method, caller, argument, idempotencyKey, noted }) {
    if (idempotencyKey !== undefined) return Promise.reject(notSupported('idempotencyKeys'));
    return new Promise((resolve) => {
      const answer = (_response, outcome) => {
        if (noted !== undefined) this.listener.answered(handle, noted, outcome);
        resolve(outcome);
      };
      const actor = this.#actors.get(handle);
      const context = new Context(actor, caller, { answer, isClient: true });
      const refused = this.isDraining ? STOPPING : this.#refusalOfClient(actor, kind, method);
      if (refused !== undefined) return context.give(refused);
      const inspects = kind === 'update' && actor.module?.entries.has(INSPECT);
      this.#enqueue({ kind: inspects ? 'inspect' : 'call', call: kind, context, method, argument });
    });
  }
  #refusalOfClient(actor, kind, method) {
    if (actor === undefined) return refusal(DESTINATION_INVALID, 'the canister was deleted');
    if (actor.queued >= this.queuedMax)
      return refusal(SYS_TRANSIENT, `the actor's queue holds ${this.queuedMax} messages: try again later`);
    const isComposite = kind === 'query' && actor.module?.methods.get(method) === 'composite_query';
    if (isComposite) return refusal(SYS_FATAL, notSupported('compositeQueries').message);
    return actor.refusal(kind === 'transform');
  }
  #enqueue(job, isAhead = false) {
    const { actor } = job.context;
    if (isUpdate(job)) actor.contexts.add(job.context);
    if (isAhead) actor.queue.unshift(job);
    else actor.queue.push(job);
    this.#next(actor);
  }
  /** Returns the place in the queue of what comes next. The order in which an actor's updates came has to be kept. */
  choose(_queue) {
    return 0;
  }
  /** Gives the executor what comes next, if the actor may begin it. Who stops begins nothing, and goes on. */
  #next(actor) {
    while (actor.given + actor.locks + actor.deletions === 0 && !actor.isGone && !actor.isLost) {
      const { queue, status } = actor;
      const at = status === 'running' ? this.choose(queue) : queue.findIndex((job) => !begins(job));
      const [job] = at < 0 ? [] : queue.splice(at, 1);
      if (job === undefined) return;
      const task = this.#taskOf(job, actor);
      if (task !== undefined) this.#run(actor, job, task);
    }
  }
  /** Returns the task for the executor; undefined: it has been seen to. */
  #taskOf(job, { module, name, firingMs }) {
    const { kind, context, method, argument } = job;
    if (context.end !== undefined) return kind === 'callback' ? this.#pay(context, job.refunded) : undefined;
    const view = { context: context.view(), instructionsMax: FULL_LIMIT };
    if (kind === 'callback') {
      const { call, response, refunded } = job;
      return { kind, callbacks: call.callbacks, response, refunded, frame: 0, ...view };
    }
    if (kind === 'hook') {
      const entry = module?.entries.get(job.hook);
      if (entry !== undefined && (job.hook !== TIMER || firingMs !== undefined)) return { kind: 'system', entry };
      return this.#hookEnded(job);
    }
    const entry = module?.entries.get(INSPECT);
    if (kind === 'inspect' && entry !== undefined)
      return { kind, entry, method, argument: argument.slice(), caller: context.caller };
    const found = module?.methods.get(method);
    if (found === 'query' || (found === 'update' && job.call === 'update'))
      return { kind: job.call, entry: module.entries.get(`canister_${found} ${method}`), argument, ...view };
    context.give(refusal(CANISTER_ERROR, `${name} has no method '${method}'`));
    return this.#finish(context);
  }
  #run(actor, job, task) {
    const { context } = job;
    actor.given++;
    context.isExecuting = true;
    if (isUpdate(job)) actor.contexts.add(context);
    this.execution.run(actor.handle, task, (ended) => {
      const { step } = ended;
      if (!ended.isReturned) this.listener.stepEnded(actor.handle, ended, countOf(job));
      if (step.timerNs !== undefined) actor.setTimer(step.timerNs === 0n ? undefined : Number(step.timerNs) / 1e6);
      context.isExecuting = false;
      if (step === TAKEN_BACK) actor.queue.unshift({ ...job, argument: ended.argument ?? job.argument });
      else this.#ended(job, step);
      this.#given(actor);
    });
  }
  /** Work of the actor has come back. */
  #given(actor) {
    actor.given--;
    if (actor.given === 0 && actor.isRecalled) this.execution.recall(actor.handle, 'nothing');
    if (actor.given === 0) actor.isRecalled = false;
    if (actor.given === 0) for (const waiter of actor.restWaiters.splice(0)) waiter();
    this.#next(actor);
  }
  #rest(actor) {
    if (actor.given === 0) return Promise.resolve();
    return new Promise((resolve) => actor.restWaiters.push(resolve));
  }
  #ended(job, step) {
    const { kind, context } = job;
    context.instructions += step.instructions;
    context.charge += step.charge;
    if (kind === 'inspect' && step.fault === undefined) {
      if (step.isAccepted) return this.#enqueue({ ...job, kind: 'call' }, true);
      context.give(refusal(CANISTER_REJECT, `${context.actor.name} rejected the message`));
    } else if (step.fault === undefined) {
      context.cycles -= step.cyclesAccepted;
      if (step.answer !== undefined) context.give(step.answer);
      for (const outgoing of step.calls) this.#send(context, outgoing);
    } else context.fault = { ...step.fault, kind: outcomeKindOf(step.fault.kind) };
    if (kind === 'callback') context.open.delete(job.call);
    if (kind === 'hook') this.#hookEnded(job, step);
    if (context.end !== undefined) context.give(context.end);
    this.#finish(context);
  }
  #finish(context) {
    const { actor, open, isExecuting, fault } = context;
    if (isExecuting || open.size > 0) return;
    const message = `${actor.name} did not reply to the call`;
    const { kind, ...silence } = fault ?? { kind: 'noReply', code: CANISTER_ERROR, message };
    context.give({ kind: 'reject', ...silence }, kind);
    actor.contexts.delete(context);
    this.#stopIfDone(actor);
  }

  // ---- calls

  #send(context, outgoing) {
    const { callee, callbacks, cycles, method, payload, timeoutSeconds } = outgoing;
    const nowMs = this.clock.nowMs();
    const deadlineMs = timeoutSeconds === undefined ? undefined : nowMs + Math.min(timeoutSeconds, 300) * 1000;
    const call = { context, callee, callbacks, deadlineMs };
    context.open.add(call);
    if (deadlineMs !== undefined) this.#limited.add(call);
    if (callee.length === 0) return this.#callSystem(call, outgoing);
    const actor = this.#actors.get(this.handleOf(callee));
    const refused = refusalOfCall(actor, context.actor, outgoing);
    if (refused !== undefined) return this.#respond(call, refused, cycles);
    const argument = payload.slice(0, NOTED_ARGUMENT_BYTES_MAX);
    const caller = context.actor.id;
    const noted = { kind: 'call', method, caller, argument, argumentBytes: payload.length, startedMs: nowMs };
    const answer = (response, outcome, left) => {
      if (this.listener.remembersCalls) this.listener.answered(actor.handle, noted, outcome);
      this.#respond(call, response, left);
    };
    const aheadMs = this.execution.aheadOf(actor.handle);
    const deadlineNs = deadlineMs === undefined ? 0n : BigInt(Math.round(deadlineMs + aheadMs)) * 1_000_000n;
    const job = { kind: 'call', call: 'update', method, argument: payload };
    this.#enqueue({ ...job, context: new Context(actor, caller, { answer, cycles, deadlineNs }) });
  }
  async #callSystem(call, { method, payload: argument, cycles }) {
    const sender = call.context.actor.id;
    try {
      if (this.system === undefined)
        return this.#respond(call, refusal(DESTINATION_INVALID, 'this host has no management canister'), cycles);
      const { response, refunded } = await this.system.call({ sender, method, argument, cycles, isQuery: false });
      this.#respond(call, response, refunded);
    } catch (error) {
      this.#respond(call, refusal(SYS_TRANSIENT, `the management canister failed: ${error}`), cycles);
    }
  }
  /** The first response counts; one to who is gone is only paid. */
  #respond(call, response, refunded) {
    if (call.isAnswered) return;
    call.isAnswered = true;
    this.#limited.delete(call);
    const { context } = call;
    if (context.end !== undefined) return this.#pay(context, refunded);
    const kind = response.kind === 'reply' ? 'reply' : 'reject';
    this.#enqueue({ kind: 'callback', context, call, response: { ...response, kind }, refunded });
  }
  #pay({ actor }, amount) {
    if (amount > 0n && !actor.isGone && !actor.isLost)
      this.execution.addCycles(actor.handle, amount).catch(() => undefined);
  }

  // ---- heartbeats, timers, deadlines

  #beat() {
    for (const actor of this.#actors.values()) {
      if (!mayBegin(actor) || actor.isBeating || !actor.module?.entries.has(HEARTBEAT)) continue;
      actor.isBeating = true;
      this.#hook(actor, HEARTBEAT);
    }
  }
  #fire(nowMs) {
    for (const actor of this.#actors.values()) {
      const { timerMs, handle } = actor;
      if (timerMs === undefined || timerMs > nowMs + this.execution.aheadOf(handle) || !mayBegin(actor)) continue;
      Object.assign(actor, { timerMs: undefined, firingMs: timerMs });
      this.#hook(actor, TIMER);
    }
    const late = refusal(SYS_UNKNOWN, 'Call deadline has expired.');
    for (const call of this.#limited) if (call.deadlineMs <= nowMs) this.#respond(call, late, 0n);
  }
  lowMemory(handle, isLow) {
    const actor = this.stateOf(handle);
    const isWaiting = ({ hook }) => hook === LOW_MEMORY;
    if (!isLow) {
      for (const job of actor.queue.filter(isWaiting)) this.#hookEnded(job);
      actor.queue = actor.queue.filter((job) => !isWaiting(job));
    } else if (mayBegin(actor) && !actor.isLow) {
      if (!actor.module?.entries.has(LOW_MEMORY)) return this.listener.lowMemoryRan(handle);
      actor.isLow = true;
      this.#hook(actor, LOW_MEMORY);
    }
  }
  /** Hooks go ahead of what waits. */
  #hook(actor, hook) {
    this.#enqueue({ kind: 'hook', hook, context: new Context(actor, new Uint8Array(0), {}) }, true);
  }
  #hookEnded({ hook, context }, step) {
    const { actor } = context;
    if (hook === HEARTBEAT) actor.isBeating = false;
    if (hook === TIMER) actor.firingMs = undefined;
    if (hook === LOW_MEMORY) actor.isLow = false;
    if (hook === LOW_MEMORY && step !== undefined) this.listener.lowMemoryRan(actor.handle);
    this.#finish(context);
  }

  // ---- states

  start(handle) {
    const actor = this.stateOf(handle);
    if (actor.status === 'running') return;
    this.#become(actor, 'running', false);
    for (const settle of actor.stopWaiters) settle('the canister was started again');
    this.#next(actor);
  }
  resume(handle) {
    if (this.stateOf(handle).isPaused) this.start(handle);
  }
  stop(handle) {
    const actor = this.stateOf(handle);
    if (actor.isPaused) this.#become(actor, actor.status, false);
    return this.#stop(actor, false);
  }
  async pause(handle) {
    const actor = this.stateOf(handle);
    await this.#stop(actor, true).catch((error) => {
      actor.isPaused = false;
      throw error;
    });
  }
  #stop(actor, isPaused) {
    if (actor.status === 'stopped') return Promise.resolve();
    const failed = (why) => new ServerError('unavailable', 'stop-failed', `${actor.name} did not stop: ${why}`);
    if (actor.deletions > 0) return Promise.reject(failed('it is deleted'));
    return new Promise((resolve, reject) => {
      const settle = (why) => {
        deadline[Symbol.dispose]();
        actor.stopWaiters.delete(settle);
        if (why === undefined) resolve();
        else reject(failed(why));
      };
      const deadline = this.clock.after(300_000, () => settle('it still has open calls after five minutes'));
      actor.stopWaiters.add(settle);
      if (actor.status === 'running') this.#become(actor, 'stopping', isPaused);
      this.#stopIfDone(actor);
    });
  }
  #stopIfDone(actor) {
    if (actor.status !== 'stopping' || actor.contexts.size > 0) return;
    this.#become(actor, 'stopped', actor.isPaused);
    for (const settle of actor.stopWaiters) settle();
  }
  #become(actor, status, isPaused) {
    Object.assign(actor, { status, isPaused });
    this.execution.configure(actor.handle, { status });
    this.listener.recordChanged(actor.handle);
    if (status !== 'running') this.#keepOut(actor);
  }
  /** Refuses what has not begun; while an actor is paused, clients wait instead. */
  #keepOut(actor) {
    const stays = (job) => !begins(job) || (actor.isPaused && job.context.isClient);
    const refused = actor.queue.filter((job) => !stays(job));
    for (const { context } of actor.queue.filter(begins)) actor.contexts.delete(context);
    actor.queue = actor.queue.filter(stays);
    for (const job of refused) {
      if (job.hook === TIMER) actor.timerMs = actor.firingMs;
      if (job.hook !== undefined) this.#hookEnded(job);
      else job.context.give(actor.refusal());
    }
    this.#stopIfDone(actor);
  }

  // ---- code

  async change(handle, module, change) {
    const actor = this.stateOf(handle);
    const release = this.lock(handle);
    if (actor.isRecalled) await this.#rest(actor);
    if (actor.deletions > 0) {
      release();
      return { step: TAKEN_BACK, lines: [] };
    }
    actor.given++;
    return new Promise((resolve) => {
      this.execution.change(handle, module, change, (ended) => {
        const { step } = ended;
        if (!ended.isReturned) this.listener.stepEnded(handle, ended, 'nothing');
        if (step.fault === undefined) {
          actor.module = module;
          actor.setTimer(step.timerNs ? Number(step.timerNs) / 1e6 : undefined);
          const reason = refusal(CANISTER_REJECT, `${actor.name} was reinstalled`);
          for (const context of actor.contexts) if (change.endsCalls && context.comesBack) this.#end(context, reason);
          this.#stopIfDone(actor);
        }
        release();
        this.#given(actor);
        resolve({ step, lines: ended.isReturned ? [] : ended.lines });
      });
    });
  }
  uninstall(handle) {
    return this.#empty(this.stateOf(handle), 'Canister has been uninstalled.');
  }
  endCalls(handle) {
    const actor = this.stateOf(handle);
    return this.#empty(actor, `${actor.name} was deleted`);
  }
  async #empty(actor, message) {
    const release = this.lock(actor.handle);
    try {
      if (!actor.isLost) await this.execution.uninstall(actor.handle);
      actor.module = undefined;
      actor.setTimer(undefined);
      for (const context of actor.contexts) this.#end(context, refusal(CANISTER_REJECT, message));
      this.#stopIfDone(actor);
    } finally {
      release();
    }
  }
  lock(handle) {
    const actor = this.stateOf(handle);
    actor.locks++;
    return () => {
      actor.locks--;
      this.#next(actor);
    };
  }
  async lockBetweenMessages(handle, { pauses = false } = {}) {
    const actor = this.stateOf(handle);
    const release = this.lock(handle);
    await this.#rest(actor);
    if (![...actor.contexts].some(({ comesBack }) => comesBack)) return release;
    if (pauses && actor.status === 'running') this.pause(handle).catch(() => undefined);
    release();
  }
  /** Nobody sleeps. */
  async pin() {
    return () => undefined;
  }
  /** Meanwhile nothing of the actor runs: what executes comes back undone. */
  beginDeletion(handle) {
    const actor = this.stateOf(handle);
    actor.deletions++;
    for (const settle of actor.stopWaiters) settle('it is deleted');
    if (actor.given > 0) this.execution.recall(handle, 'everything');
    actor.isRecalled = actor.given > 0;
    return () => {
      actor.deletions--;
      if (actor.status !== 'running') this.#keepOut(actor);
      this.#next(actor);
    };
  }
}

/** True for what begins a call, but for the transform of an outcall, which an open call waits for. */
const begins = ({ kind, call }) => kind !== 'callback' && call !== 'transform';
/** Stopping waits for it. */
const isUpdate = ({ call }) => call !== 'query' && call !== 'transform';
const mayBegin = ({ status, locks, isLost }) => status === 'running' && locks === 0 && !isLost;

/** How the step of a task counts, where no client's answer counts it. */
function countOf({ kind, context: { isClient, answer } }) {
  if (kind === 'inspect') return 'nothing';
  if (kind === 'callback') return isClient && answer !== undefined ? 'nothing' : 'part';
  return isClient ? 'nothing' : 'message';
}

/** Why a call of another actor does not reach its method; undefined: it does. */
function refusalOfCall(actor, sender, { callee, method, cycles }) {
  if (actor === undefined) return refusal(DESTINATION_INVALID, `No route to canister ${principalToText(callee)}`);
  const { name, minimumCycles } = actor;
  const kind = actor.module?.methods.get(method);
  const refused = actor.refusal();
  if (refused !== undefined) return refused;
  if (cycles < minimumCycles && actor !== sender)
    return refusal(CANISTER_ERROR, `${name} wants ${minimumCycles} cycles`);
  if (kind !== 'update' && kind !== 'query') return refusal(CANISTER_ERROR, `${name} has no update method '${method}'`);
}

export default definePlugin({
  apiVersion: 1,
  name: 'first-come',
  provides: Scheduler,
  requires: { execution: Execution, clock: Clock },
  options: {
    'heartbeat-ms': {
      type: 'integer',
      summary: 'Time between heartbeats.',
      unit: 'ms',
      min: 0,
      max: 60_000,
      default: 1000,
    },
    'timer-ms': {
      type: 'integer',
      summary: 'Time between looks at timers.',
      unit: 'ms',
      min: 1,
      max: 1000,
      default: 50,
    },
  },
  create: (granted, { config }) => new FirstCome(granted, config),
  ready: (made) => made.begin(),
  drain: (made) => made.drain(),
  // An executing message may take as long as it has to.
  stopDeadlineMs: 3_600_000,
});
