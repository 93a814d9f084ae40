// A button at each block of code that copies it; of a console its commands alone, without the prompt and what they print.

for (const block of document.querySelectorAll("div.highlight > pre")) {
  const lines = block.textContent.trimEnd().split("\n"), commands = lines.filter((line) => line.startsWith("$ "));
  const text = commands.length > 0 ? commands.map((line) => line.slice(2)).join("\n") : lines.join("\n");
  const button = document.createElement("button");
  const tell = (words) => {
    button.textContent = words;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
  const select = () => {
    getSelection().selectAllChildren(block);
    tell("Selected");
  };
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", () => (navigator.clipboard ? navigator.clipboard.writeText(text).then(() => tell("Copied"), select) : select()));
  block.parentElement.append(button);
}
