// What a kernel's messages look like in a notebook, without VS Code: {type, items, metadata} for each output, with
// items of {mime, data}. The metadata is what VS Code's own serializer of notebooks looks for.
"use strict";

// The best first: VS Code shows the first that it knows.
const BEST = [
  "application/vnd.",
  "text/html",
  "image/svg+xml",
  "image/png",
  "image/jpeg",
  "image/gif",
  "text/markdown",
  "text/latex",
  "application/json",
  "text/plain",
];

const rank = (mime) => {
  const at = BEST.findIndex((begin) => mime.startsWith(begin));
  return at < 0 ? BEST.length : at;
};

const isBinary = (mime) => /^(image\/(?!svg)|audio\/|video\/|application\/pdf)/.test(mime);

const isText = (mime) => /^text\/|^image\/svg|javascript/.test(mime);

// The bytes of one representation, as its mime type has them in a kernel's message.
function bytes(mime, value) {
  const joined = Array.isArray(value) && isText(mime) ? value.join("") : value;
  if (isBinary(mime)) return Buffer.from(String(joined), "base64");
  return Buffer.from(typeof joined === "string" ? joined : JSON.stringify(joined));
}

function bundle({ data = {}, metadata = {}, transient = {}, execution_count: executionCount }, outputType) {
  const items = Object.entries(data)
    .sort(([a], [b]) => rank(a) - rank(b))
    .map(([mime, value]) => ({ mime, data: bytes(mime, value) }));
  return { type: "bundle", items, id: transient.display_id, metadata: { outputType, metadata, executionCount } };
}

// One message; null for what shows nothing.
function outputOf(type, content) {
  switch (type) {
    case "stream":
      return { type: "stream", name: content.name, text: content.text, metadata: { outputType: "stream" } };
    case "display_data":
    case "execute_result":
      return bundle(content, type);
    case "update_display_data":
      return { ...bundle(content, "display_data"), type: "update" };
    case "error":
      return {
        type: "error",
        error: { name: content.ename, message: content.evalue, stack: content.traceback.join("\n") },
        metadata: { outputType: "error", originalError: { output_type: "error", ...content } },
      };
    case "clear_output":
      return { type: "clear", wait: content.wait };
    default:
      return null;
  }
}

module.exports = { outputOf };
