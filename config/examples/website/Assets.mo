/// The site's files. A larger site keeps them in its state and takes uploads; these few stand in the code.
import Text "mo:core/Text";

module {
  public type Asset = { contentType : Text; body : Blob };

  public func find(path : Text) : ?Asset {
    switch path {
      case "/style.css" ?{ contentType = "text/css; charset=utf-8"; body = style };
      case "/app.js" ?{ contentType = "text/javascript; charset=utf-8"; body = script };
      case "/logo.svg" ?{ contentType = "image/svg+xml"; body = logo };
      case _ null;
    };
  };

  let style : Blob =
    "body { font: 16px/1.6 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem; color: #1d2433; background: #fbfbf8 }
h1 { line-height: 1.2 }
a { color: #2457c5 }
nav { display: flex; gap: 1rem; align-items: center; margin-bottom: 2rem }
nav img { width: 2rem; height: 2rem }
form { display: grid; gap: .5rem; margin: 1rem 0 }
input, button { font: inherit; padding: .5rem; border: 1px solid #8a93a6; border-radius: .4rem }
button { background: #2457c5; color: white; border: 0; cursor: pointer; justify-self: start; padding: .5rem 1.5rem }
li { margin: .25rem 0 }
";

  let logo : Blob =
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><circle cx='16' cy='16' r='15' fill='#2457c5'/><path d='M9 16h14M16 9v14' stroke='white' stroke-width='3'/></svg>
";

  /// The page /live calls its own actor by the JSON API of the host, like any client would.
  let script : Blob =
    "const list = document.querySelector('#guests');
const status = document.querySelector('#status');
const form = document.querySelector('form');
const actor = document.body.dataset.actor;

async function call(kind, method, args) {
  const answer = await fetch(`/${kind}/${actor}/${method}`, { method: 'POST', body: JSON.stringify(args) });
  if (answer.ok) return (await answer.json())[0];
  throw new Error(answer.status === 401 ? 'this server wants a token, and this page has none' : await answer.text());
}

async function show() {
  const guests = await call('query-json', 'guests', []);
  list.replaceChildren(...guests.map(({ name, message }) => {
    const item = document.createElement('li');
    item.textContent = `${name}: ${message}`;
    return item;
  }));
  status.textContent = `${guests.length} so far`;
}

const told = (work) => work().catch((error) => { status.textContent = error.message; });
form.addEventListener('submit', (event) => {
  event.preventDefault();
  const { name, message } = form.elements;
  told(async () => {
    await call('call-json', 'sign', [name.value, message.value]);
    form.reset();
    await show();
  });
});
told(show);
";
};
