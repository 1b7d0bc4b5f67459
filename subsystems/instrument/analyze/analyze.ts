/**
 * Analysis that the rewriter needs ahead of each place. Each body is decoded once; then four passes go over it, each
 * with a type for its results: blocks first, because frames and charges depend on facts about them.
 *
 * All results are flat lists in order of appearance; the rewriter reads them in the same order.
 */
import { decodeBody, type InstructionBuffer, type WasmModule } from '../../wasm/index.ts';
import { BlockPass, ModuleBlocks } from './block-pass.ts';
import { CallPass, ModuleCalls } from './call-pass.ts';
import { ChargePass, ModuleCharges } from './charge-pass.ts';
import { FramePass, ModuleFrames } from './frame-pass.ts';

/** Facts about all functions; `body` indices count defined functions. */
export interface ModuleAnalysis {
  readonly blocks: ModuleBlocks;
  readonly frames: ModuleFrames;
  readonly charges: ModuleCharges;
  readonly calls: ModuleCalls;
}

/** Analyzes all bodies. Throws a ServerError `wasm-unsupported` or `wasm-limit` for code that cannot be metered. */
export function analyzeModule(module: WasmModule, buffer: InstructionBuffer): ModuleAnalysis {
  const bodies = module.bodyStart.length;
  const blocks = new ModuleBlocks(bodies);
  const frames = new ModuleFrames(bodies);
  const charges = new ModuleCharges(bodies);
  const calls = new ModuleCalls(bodies);
  const passes = [
    new BlockPass(blocks),
    new FramePass(module, blocks, frames),
    new ChargePass(module, blocks, charges),
    new CallPass(module, calls),
  ];
  for (let body = 0; body < bodies; body++) {
    decodeBody(module, body, buffer);
    for (const pass of passes) pass.run(body, buffer);
  }
  return { blocks, frames, charges, calls };
}
