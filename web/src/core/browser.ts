/** Browser APIs that may be denied: in a notebook's sandboxed iframe there is no storage, and the URL cannot be changed. */

/** Do it where it is allowed; say whether it was. */
function allowed(act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (error instanceof DOMException && error.name === "SecurityError") return false;
    throw error;
  }
}

export type StorageName = "sessionStorage" | "localStorage";

export function storeItem(where: StorageName, name: string, value: string): void {
  allowed(() => window[where].setItem(name, value));
}

export function storedItem(where: StorageName, name: string): string | null {
  let value: string | null = null;
  allowed(() => (value = window[where].getItem(name)));
  return value;
}

/** Put a fragment in the address; an empty one takes the "#" away too. */
export function setFragment(how: "replaceState" | "pushState", fragment: string): void {
  allowed(() => history[how](null, "", fragment ? `#${fragment}` : location.pathname + location.search));
}

/** Hand a file to the person. */
export function download(name: string, file: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
