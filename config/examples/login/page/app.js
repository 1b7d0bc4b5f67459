import { UnauthorizedError, Client } from './svc-client.mjs';
import { logIn, token } from './login.js';

const [note, who, list, form, text] = ['#note', '#who', 'ol', 'form', '#text'].map((each) =>
  document.querySelector(each),
);

document.querySelector('#log-in').addEventListener('click', () => logIn().catch(tell));
// The page forgets the token; the user stays logged in at the provider.
document.querySelector('#log-out').addEventListener('click', () => location.reload());

const proof = await token().catch(tell);
show(proof !== undefined);
if (proof !== undefined) await open(new Client({ token: proof })).catch(tell);

async function open(client) {
  const [principal] = await client.query('journal', 'whoami');
  who.textContent = principal;
  client.watch('journal', 'entries', [], {
    value: ([entries]) => list.replaceChildren(...entries.map(item)),
    online: (isOnline) => (note.textContent = isOnline ? '' : 'The server is away.'),
    end: tell,
  });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      await client.call('journal', 'write', [text.value]);
      form.reset();
      note.textContent = '';
    } catch (error) {
      tell(error);
    }
  });
}

function item({ text: written, writtenAt }) {
  const li = document.createElement('li');
  const when = new Date(Number(BigInt(writtenAt) / 1_000_000n));
  li.textContent = `${when.toLocaleString()}: ${written}`;
  return li;
}

function tell(error) {
  // The token has ended, or says something else than the server asks for.
  if (error instanceof UnauthorizedError) show(false);
  note.textContent = error.message;
}

function show(isLoggedIn) {
  document.querySelector('section').hidden = !isLoggedIn;
  document.querySelector('#log-in').hidden = isLoggedIn;
}
