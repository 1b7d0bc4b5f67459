import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Scene, Viewer, Viewers } from '../../../subsystems/http/watch/viewers.ts';
import { seeded } from '../../support/seeded.ts';

const frame = (text: string): Buffer => Buffer.from(text);

test('whoever stays is told the newest answer, in whatever order others come and go in the middle of a round', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seeded(seed);
    let scene: Scene = { codeChanges: 0, codeFrame: frame(''), answer: undefined, endFrame: undefined };
    const viewers = new Viewers(() => scene);
    const open = new Map<Viewer, string>();
    const come = (): void => {
      const viewer = new Viewer(undefined, 0);
      viewer.stream = {
        send: (bytes) => {
          open.set(viewer, Buffer.from(bytes).toString());
          return true;
        },
        end: () => undefined,
      };
      open.set(viewer, '');
      viewers.add(viewer);
    };
    const go = (): void => {
      const all = [...open.keys()];
      if (all.length === 0) return;
      const viewer = random.pick(all as [Viewer, ...Viewer[]]);
      open.delete(viewer);
      viewers.remove(viewer);
    };
    for (let n = 0; n < 20; n++) come();
    for (let answer = 1; answer <= 10; answer++) {
      scene = { ...scene, answer: { id: `${answer}`, frame: frame(`${answer}`) } };
      viewers.changed();
      while (viewers.tellSome(1 + random.below(4))) {
        if (random.oneIn(2)) go();
        if (random.oneIn(4)) come();
      }
      for (const told of open.values()) assert.equal(told, `${answer}`, `seed ${seed}`);
    }
  }
});
