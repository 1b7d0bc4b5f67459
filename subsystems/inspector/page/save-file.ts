/** Milliseconds that the browser has to begin with a file before its address is released. */
const RELEASE_MS = 60_000;

/** Hands bytes to the browser as a file to keep. */
export function saveFile(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), RELEASE_MS);
}
