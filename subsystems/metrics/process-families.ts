/** Resources of the machine that the process uses, under the names of Prometheus' client libraries. */
import type { Families } from './families.ts';

/**
 * Adds the families. Returns a function to be called before they are read, so that the system is asked once for each
 * page.
 */
export function showProcess(families: Families): () => void {
  let memory = process.memoryUsage();
  let cpu = process.cpuUsage();
  let activeMs = 0;
  const bytes = (name: string, help: string, kind: keyof NodeJS.MemoryUsage): void =>
    families.gauge(name, help, () => memory[kind]);
  const { timeOrigin } = performance;
  families.gauge(
    'process_start_time_seconds',
    'When the process started, seconds since 1970.',
    () => timeOrigin / 1000,
  );
  families.counter(
    'process_cpu_seconds_total',
    'Processor time of all threads.',
    () => (cpu.user + cpu.system) / 1_000_000,
  );
  families.counter(
    'svc_event_loop_busy_seconds_total',
    'Time in which the main thread had something to do.',
    () => activeMs / 1000,
  );
  bytes('process_resident_memory_bytes', 'Memory of the machine that the process has.', 'rss');
  bytes('nodejs_heap_size_used_bytes', 'V8 heap of the main thread in use.', 'heapUsed');
  bytes('nodejs_heap_size_total_bytes', 'V8 heap of the main thread.', 'heapTotal');
  bytes('nodejs_external_memory_bytes', 'Buffers of the main thread, outside its V8 heap.', 'external');
  return () => {
    memory = process.memoryUsage();
    cpu = process.cpuUsage();
    activeMs = performance.eventLoopUtilization().active;
  };
}
