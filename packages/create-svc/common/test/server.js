/** Starts a real server with the actors of this project on a free port; it is stopped when the test ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const ANONYMOUS = '2vxsx-fae';

export async function startServer(t) {
  const child = spawn('node_modules/.bin/svc', ['--manifest', 'actors.json', '--listen', '127.0.0.1:0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  let origin = '';
  await new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the server has ended with code ${code}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.startsWith('listening on ')) origin = line.slice('listening on '.length);
      if (line.startsWith('REJECTED ')) reject(new Error(line));
      if (line.startsWith('ready: ')) resolve();
    });
  });
  const as =
    (caller) =>
    (path, ...values) =>
      call(`${origin}/${path}`, values, caller);
  return { origin, as, call: as(ANONYMOUS) };
}

/** `call('call-json/counter/inc')` returns the list of results. */
async function call(url, values, caller) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'x-caller': caller },
    body: JSON.stringify(values),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return response.json();
}
