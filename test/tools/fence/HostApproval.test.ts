// Which hosts are asked about, of addresses and of command lines; what an approval for a host covers.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import * as EgressGate from "../../../src/tools/fence/EgressGate.ts"
import * as HostApproval from "../../../src/tools/fence/HostApproval.ts"
import * as Urls from "../../../src/tools/fence/Urls.ts"
import * as WebTools from "../../../src/tools/builtin/WebTools.ts"
import { machine, program } from "../../support/hermes.ts"
import * as Pseudo from "../../support/pseudoTerminal.ts"
import { callTool } from "../../support/callTool.ts"
import { webServer } from "../../support/webServer.ts"

const asking: Urls.Policy = { ...Urls.strict, allowPrivate: true, unknownHosts: "ask" }

/** Hosts and, as `?`, commands as a whole that a line is asked about. */
const asked = (line: string): ReadonlyArray<string> =>
  HostApproval.findLineConcerns(line).map(({ target }) => target?.text ?? "?")

const clear: ReadonlyArray<readonly [line: string, hosts: ReadonlyArray<string>]> = [
  ["curl https://example.com", ["example.com"]],
  ["curl -sSL https://EXAMPLE.com/a?b=c#d", ["example.com"]],
  ["curl example.com", ["example.com"]],
  ["curl https://example.com:443/x", ["example.com"]],
  ["curl https://example.com:8443/x", ["example.com:8443"]],
  ["curl http://127.0.0.1:3000", ["127.0.0.1:3000"]],
  ["curl -X POST -H 'A: b' -d '{\"a\":1}' -o out https://example.com/x", ["example.com"]],
  ["curl -o/dev/null --request=POST --url https://example.com", ["example.com"]],
  ["curl -d https://other.example https://example.com", ["example.com"]],
  ["wget -qO- https://example.com/x", ["example.com"]],
  ["wget -nv --header='A: b' -P dir https://example.com/x", ["example.com"]],
  ["cd x && curl https://a.example; wget https://b.example", ["a.example", "b.example"]],
  ["sudo curl https://example.com", ["example.com"]],
  ["sh -c 'curl https://example.com'", ["example.com"]],
  ["echo $(curl https://example.com)", ["example.com"]],
  ["echo curl https://example.com", []],
  ["git commit -m 'curl https://example.com'", []],
  ["curl --version", []],
  ["ls", []]
]

const unclear: ReadonlyArray<string> = [
  "curl $URL",
  "curl https://$HOST/x",
  'curl "$(cat url)"',
  "curl https://a.example https://b.example",
  "curl --url https://a.example --url https://b.example",
  "curl -K config https://example.com",
  "curl -x http://proxy.example https://example.com",
  "curl --proxy http://proxy.example https://example.com",
  "curl --connect-to example.com:443:other.example:443 https://example.com",
  "curl --resolve example.com:443:1.2.3.4 https://example.com",
  "curl --unix-socket /run/docker.sock http://localhost/x",
  "curl -sx http://proxy.example https://example.com",
  "curl --next https://example.com",
  "https_proxy=http://proxy.example curl https://example.com",
  "curl https://example.com@evil.example",
  "curl https://user:pw@example.com",
  "curl https://example.com\\@evil.example/",
  "curl 'https://example.com\\@evil.example/'",
  "curl 'https://exa%6dple.com'",
  "curl https://{a,b}.example",
  "curl 'https://{a,b}.example'",
  "curl 'https://[1-3].example'",
  "curl https://0x7f.1/",
  "curl http://2130706433/",
  "curl https://exаmple.com",
  "curl ftp://example.com",
  "curl file:///etc/passwd",
  "curl *",
  "wget -i urls.txt",
  "wget -r https://example.com",
  "wget -e use_proxy=yes https://example.com",
  "wget --execute=https_proxy=http://proxy.example https://example.com",
  "echo https://example.com | xargs curl",
  "http example.com",
  "aria2c https://example.com"
]

describe("hosts of command lines", () => {
  it("are those of curl and wget with one clear address", () => {
    for (const [line, hosts] of clear) assert.deepStrictEqual(asked(line), hosts, line)
  })

  it("are asked about as the command where they are not clear", () => {
    for (const line of unclear) assert.include(asked(line), "?", line)
    for (const line of [
      "export https_proxy=http://proxy.example; curl https://example.com",
      "curl() { other; }; curl https://example.com"
    ]) {
      assert.notDeepEqual(asked(line), ["example.com"], line)
    }
  })

  it("are found in long lines, and a name that no DNS takes is not clear", () => {
    const line = `curl ${"-H 'a: b' ".repeat(5_000)} https://example.com`
    assert.deepStrictEqual(asked(line), ["example.com"])
    assert.deepStrictEqual(asked(`curl https://${"a.".repeat(30_000)}example/`), ["?"])
  })
})

describe("hosts of addresses", () => {
  it("are asked about once each, with their port; what the fence refuses is not", () => {
    const addresses = [
      "https://a.example/x",
      "https://a.example/y",
      "http://a.example:8080",
      "https://www.a.example",
      "file:///x",
      "http://169.254.169.254/",
      "nonsense"
    ]
    const hosts = Effect.runSync(EgressGate.findConcerns(addresses, { ...asking, allowPrivate: false })).map(
      ({ target }) => target?.text
    )
    // The metadata address is refused when it is resolved: it is asked about first, and never reached.
    assert.deepStrictEqual(hosts, ["a.example", "a.example:8080", "www.a.example", "169.254.169.254"])
  })

  it.live("a redirect to another host is not followed, to the same one it is", () =>
    Effect.gen(function* () {
      const other = yield* webServer((_request, response) =>
        response.writeHead(200, { "content-type": "text/plain" }).end("other")
      )
      const one = yield* webServer(({ url }, response) => {
        if (url === "/away") response.writeHead(302, { location: `${other}/x` }).end()
        else if (url === "/near") response.writeHead(302, { location: "/here" }).end()
        else response.writeHead(200, { "content-type": "text/plain" }).end("here")
      })
      const extracted = yield* callTool(WebTools.toolset, "web_extract", { urls: [`${one}/away`, `${one}/near`] }).pipe(
        Effect.provideService(Urls.UrlPolicy, asking)
      )
      assert.include(extracted.text, `it redirects to ${new URL(other).host}, a host that is not approved`)
      assert.notInclude(extracted.text, '"other"')
      assert.include(extracted.text, '"here"')
    }).pipe(Effect.scoped)
  )
})

const turns = (...calls: ReadonlyArray<readonly [name: string, args: unknown]>): string =>
  JSON.stringify({
    turns: [...calls.map(([name, args]) => ({ tool_calls: [{ name, arguments: args }] })), { text: "that was all" }]
  })

describe("security.unknown_hosts", () => {
  it.live("denies where nobody can be asked, unless the host is on the list; `allow` asks nothing", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const url = yield* webServer((_request, response) =>
          response.writeHead(200, { "content-type": "text/plain" }).end("the page")
        )
        const { hermes, keep, put } = yield* machine
        put(
          "turns.yaml",
          turns(["web_extract", { urls: [`${url}/x`] }], ["terminal", { command: `curl -sS ${url}/x` }])
        )
        const outputs = Effect.map(
          hermes(["-q", "go", "--script", "turns.yaml", "--format", "stream-json"]),
          ({ stdout }) =>
            stdout
              .split("\n")
              .filter((line) => line.includes('"tool_result"'))
              .map((line) => String(JSON.parse(line).output))
        )
        keep("config.yaml", "security: { allow_private_urls: true }\napprovals: { unknown_commands: allow }\n")
        for (const output of yield* outputs)
          assert.include(
            output,
            `BLOCKED: this needs an approval (request to ${new URL(url).host}, a host that is not approved)`
          )
        keep(
          "config.yaml",
          `security: { allow_private_urls: true, unknown_hosts: ask }\napprovals: { unknown_commands: allow }\ncommand_allowlist: ["host: ${new URL(url).host}"]\n`
        )
        const listed = yield* outputs
        assert.include(listed[0], "the page")
        assert.notInclude(listed[1], "BLOCKED")
        keep(
          "config.yaml",
          "security: { allow_private_urls: true, unknown_hosts: allow }\napprovals: { unknown_commands: allow }\n"
        )
        for (const output of yield* outputs) assert.notInclude(output, "BLOCKED")
      })
    )
  )

  if (Pseudo.launcher === undefined) return
  const launch = Pseudo.launcher

  it.live("asks for the host at a terminal, and keeps it for good", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const page = webServer((_request, response) =>
          response.writeHead(200, { "content-type": "text/plain" }).end("the page")
        )
        const [first, second] = [new URL(yield* page).host, new URL(yield* page).host]
        const { at, cwd, home, keep, put } = yield* machine
        keep("config.yaml", "security: { allow_private_urls: true, unknown_hosts: ask }\n")
        put(
          "turns.yaml",
          turns(
            ...[`http://${first}/a`, `http://${first}/b`, `http://${second}/c`].map(
              (url) => ["web_extract", { urls: [url] }] as const
            )
          )
        )
        const terminal = yield* Pseudo.open(
          launch,
          `cd '${cwd}' && exec '${process.execPath}' '${program}' --script turns.yaml`,
          { HERMES_HOME: home, HOME: at("."), NO_COLOR: "1" }
        )
        yield* terminal.until("›")
        yield* terminal.type("go\r")
        yield* terminal.until(`3 Allow from now on: web(${first})`)
        yield* Effect.sleep("700 millis")
        yield* terminal.type("3\r")
        // The second page of the host is not asked about; another port of it is.
        yield* terminal.until(`2 Allow requests to ${second} for this session`)
        yield* Effect.sleep("700 millis")
        yield* terminal.type("n\r")
        yield* terminal.until("that was all")
        yield* terminal.type("/quit\r")
        yield* terminal.exited
        const kept = readFileSync(`${home}/config.yaml`, "utf8")
        assert.include(kept, `- web(${first})`)
        assert.notInclude(kept, second)
      })
    )
  )
})
