// A gallery of VS Code's extensions with one extension in it, as a site's mirror serves them: the query, the manifest, the package.
import { createServer } from "node:http";
import { crc32 } from "node:zlib";

export const extension = { publisher: "slipway-test", name: "greeting", displayName: "Greeting of the mirror", version: "1.2.3" };
export const extensionID = `${extension.publisher}.${extension.name}`;

const manifest = JSON.stringify({
  ...extension,
  description: "Says hello",
  engines: { vscode: "^1.90.0" },
  contributes: { commands: [{ command: "greeting.say", title: "Say Hello" }] },
  main: "./main.js",
});
const main = 'exports.activate = () => require("vscode").commands.registerCommand("greeting.say", () => {});';
const vsixManifest = `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata><Identity Language="en-US" Id="${extension.name}" Version="${extension.version}" Publisher="${extension.publisher}"/>
<DisplayName>${extension.displayName}</DisplayName></Metadata>
<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation><Dependencies/>
<Assets><Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/></Assets>
</PackageManifest>`;

// A zip file, uncompressed.
function zip(files) {
  const bodies = [];
  const directory = [];
  let at = 0;
  for (const [name, text] of Object.entries(files)) {
    const data = Buffer.from(text);
    const common = Buffer.alloc(26); // from the version needed to the length of the extra field
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(0x21, 8); // 1 January 1980
    common.writeUInt32LE(crc32(data), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(data.length, 18);
    common.writeUInt16LE(name.length, 22);
    const place = Buffer.alloc(14);
    place.writeUInt32LE(at, 10);
    directory.push(Buffer.from("PK\x01\x02\x14\0"), common, place, Buffer.from(name));
    bodies.push(Buffer.from("PK\x03\x04"), common, Buffer.from(name), data);
    at += 30 + name.length + data.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  const count = Object.keys(files).length;
  end.writeUInt16LE(count, 4);
  end.writeUInt16LE(count, 6);
  end.writeUInt32LE(listed.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...bodies, listed, Buffer.from("PK\x05\x06"), end]);
}

const vsix = zip({ "extension.vsixmanifest": vsixManifest, "extension/package.json": manifest, "extension/main.js": main });

const files = {
  "Microsoft.VisualStudio.Code.Manifest": manifest,
  "Microsoft.VisualStudio.Services.VsixManifest": vsixManifest,
  "Microsoft.VisualStudio.Services.VSIXPackage": vsix,
};

// What the gallery says of its extension, with the addresses of its files.
function entry(url) {
  const { publisher, name, displayName, version } = extension;
  return {
    extensionId: "5a1c0000-0000-4000-8000-000000000001",
    extensionName: name,
    displayName,
    shortDescription: "Says hello",
    publisher: { publisherId: "5a1c0000-0000-4000-8000-000000000002", publisherName: publisher, displayName: publisher },
    flags: "validated, public",
    statistics: [],
    versions: [
      {
        version,
        flags: "validated",
        lastUpdated: "2026-01-01T00:00:00.000Z",
        assetUri: `${url}/asset`,
        fallbackAssetUri: `${url}/asset`,
        files: Object.keys(files).map((assetType) => ({ assetType, source: `${url}/asset/${assetType}` })),
        properties: [{ key: "Microsoft.VisualStudio.Code.Engine", value: "^1.90.0" }],
      },
    ],
  };
}

const byText = 10;
const byName = 7;
const byID = 4;

// Whether the extension is asked for, by its name, its number or words of its title.
function wanted({ filters: [{ criteria }] }, { extensionId }) {
  const title = extension.displayName.toLowerCase();
  return criteria.some(
    ({ filterType, value }) =>
      (filterType === byText && title.includes(value.trim().toLowerCase())) ||
      (filterType === byName && value.toLowerCase() === extensionID) ||
      (filterType === byID && value === extensionId),
  );
}

function answer(url, query) {
  const extensions = [entry(url)].filter((each) => wanted(query, each));
  const count = { metadataType: "ResultCount", metadataItems: [{ name: "TotalCount", count: extensions.length }] };
  return { results: [{ extensions, pagingToken: null, resultMetadata: [count] }] };
}

// Serves it at an address such as http://172.17.0.1:4711/gallery, until close is called; asked counts requests by method and path.
export async function serveGallery(url) {
  const { port, pathname, hostname } = new URL(url);
  const asked = [];
  const server = createServer(async (request, response) => {
    const path = request.url.slice(pathname.length).split("?")[0];
    asked.push(`${request.method} ${path}`);
    const allow = {
      "Access-Control-Allow-Origin": "*",
      "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
      "Access-Control-Allow-Headers": request.headers["access-control-request-headers"] ?? "*",
    };
    const send = (status, type, body) => response.writeHead(status, { ...allow, "Content-Type": type }).end(body);
    const file = files[path.slice("/asset/".length)];
    if (request.method === "OPTIONS") send(204, "text/plain");
    else if (path === "/extensionquery") send(200, "application/json", JSON.stringify(answer(url, JSON.parse(await text(request)))));
    else if (path.startsWith("/asset/") && file) send(200, "application/octet-stream", file);
    else send(404, "text/plain", "there is no such thing");
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(Number(port), hostname, resolve));
  return { asked, close: () => server.close() };
}

async function text(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}
