/** A command with a button that copies it; where the browser refuses that, the command is selected, to be copied by hand. */

import "./command.css";

const TOLD = 2_000; // milliseconds that "Copied" stays

export function Command({ line }: { line: string }) {
  const copy = ({ currentTarget }: { currentTarget: EventTarget | null }) => {
    const button = currentTarget as HTMLElement, words = button.firstChild!;
    const tell = (text: string) => {
      words.textContent = text;
      setTimeout(() => (words.textContent = "Copy"), TOLD);
    };
    const select = () => {
      getSelection()?.selectAllChildren(button.previousElementSibling!);
      tell("Selected");
    };
    // Where a page is no secure one, such as from another machine, there is no clipboard.
    if (navigator.clipboard) navigator.clipboard.writeText(line).then(() => tell("Copied"), select);
    else select();
  };
  return (
    <span class="command">
      <code>{line}</code>
      <button type="button" onClick={copy}><span aria-live="polite">Copy</span><span class="unseen"> the command</span></button>
    </span>
  );
}

/** A text that may end in a command, after a colon. */
export function Told({ text }: { text: string }) {
  const at = text.search(/(?<=: )glassformer /);
  return at < 0 ? <>{text}</> : <>{text.slice(0, at)}<Command line={text.slice(at)} /></>;
}
