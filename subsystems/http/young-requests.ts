/** A flag of V8's, for requests that live longer than usual. Main thread. */
import { setFlagsFromString } from 'node:v8';

/**
 * Has V8 make requests where short-lived objects are made, from now on and in this process.
 *
 * Where many objects of one place in the code outlive two collections, V8 takes all that come from there for
 * long-lived ones, and makes them in the old generation from then on. Requests and answers outlive them while clients
 * take their answers slowly. Later ones, which live for a millisecond, then wait for a collection of the whole heap,
 * and what they point to is copied there by every small one. Under siege (`npm run prove -- siege`, 25 s each) that
 * happened in 6 of 17 servers: collections took 3.7 to 5.9 s of the main thread, up to 390 ms each, instead of 0.6 to
 * 1.6 s, and the heap went to 140 to 190 MB. Without it none of 5 did, none had more than 68 MB, and requests cost no
 * more CPU. A V8 without the flag ignores it.
 *
 * To be called before any thread starts. Node files compiled code by the flags that a thread finds
 * (config/code-cache.ts), and a thread that started meanwhile would find now these and now those.
 */
export function keepRequestsYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring');
}
