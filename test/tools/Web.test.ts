import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import { gzipSync } from "node:zlib"
import { SideModel, SideModelError } from "../../src/tools/builtin/SideModel.ts"
import * as SearchProvider from "../../src/tools/builtin/SearchProvider.ts"
import * as Fetch from "../../src/tools/fence/Fetch.ts"
import * as WebTools from "../../src/tools/builtin/WebTools.ts"
import * as Urls from "../../src/tools/fence/Urls.ts"
import { callTool } from "../support/callTool.ts"
import { webServer } from "../support/webServer.ts"

interface Extracted {
  readonly url: string
  readonly title: string
  readonly content: string
  readonly error: string | null
}

const allowed = Effect.provideService(Urls.UrlPolicy, { ...Urls.strict, allowPrivate: true })

const extract = (urls: ReadonlyArray<string>) =>
  Effect.map(callTool(WebTools.toolset, "web_extract", { urls }), ({ body, isFailure }) => ({
    isFailure,
    results: (body["results"] ?? []) as ReadonlyArray<Extracted> // the shape that the tool promises
  }))

const article = `<!doctype html><html><head><title>The heron</title><script>var x = "never";</script></head><body>
<nav><a href="/">Home</a><a href="/about">About us</a></nav>
<article><h1>The heron</h1>${"<p>The grey heron stands in shallow water and waits for fish, for hours if it must, and then strikes.</p>".repeat(
  8
)}<h2>Diet</h2><ul><li>Fish</li><li>Frogs</li></ul><p>See <a href="/more?x=1">the other page</a> for more.</p>
<pre><code>const heron = 1
  indented()</code></pre></article><footer>Copyright</footer></body></html>`

describe("web_extract", () => {
  it.live("reads the text of a page as Markdown", () =>
    Effect.gen(function* () {
      const url = yield* webServer((_request, response) => {
        response.writeHead(200, { "content-type": "text/html", "content-encoding": "gzip" })
        response.end(gzipSync(article))
      })
      const {
        results: [page]
      } = yield* extract([`${url}/heron`]).pipe(allowed)
      assert.strictEqual(page?.error, null)
      assert.strictEqual(page?.title, "The heron")
      assert.include(page?.content, "shallow water")
      assert.include(page?.content, "## Diet")
      assert.include(page?.content, "- Frogs")
      assert.include(page?.content, `[the other page](${url}/more?x=1)`)
      assert.include(page?.content, "  indented()")
      assert.notInclude(page?.content, "never")
    })
  )

  it.live("each address has its own error, and the others are read", () =>
    Effect.gen(function* () {
      const url = yield* webServer(({ url }, response) => {
        if (url === "/text") response.writeHead(200, { "content-type": "text/plain" }).end("plain words")
        else if (url === "/image") response.writeHead(200, { "content-type": "image/png" }).end("x")
        else if (url === "/empty") response.writeHead(200, { "content-type": "text/html" }).end("<html></html>")
        else response.writeHead(404).end()
      })
      const { results } = yield* extract([`${url}/text`, `${url}/image`, `${url}/none`, `${url}/empty`, "no url"]).pipe(
        allowed
      )
      assert.deepStrictEqual(
        results.map(({ content, error }) => [content, error === null]),
        [
          ["plain words", true],
          ["", false],
          ["", false],
          ["", false],
          ["", false]
        ]
      )
      assert.include(results[1]?.error, "image/png")
      assert.include(results[2]?.error, "404")
      assert.include(results[4]?.error, "not a URL")
    })
  )

  it.live("a page nested without end, broken bytes and unknown character sets are read as well as it goes", () =>
    Effect.gen(function* () {
      const url = yield* webServer(({ url }, response) => {
        if (url === "/deep")
          response.writeHead(200, { "content-type": "text/html" }).end(`${"<div>".repeat(20_000)}at the bottom`)
        else
          response
            .writeHead(200, { "content-type": "text/plain; charset=klingon" })
            .end(Buffer.from([0x61, 0xff, 0xfe, 0x62]))
      })
      const { results } = yield* extract([`${url}/deep`, `${url}/bytes`]).pipe(allowed)
      assert.include(results[0]?.content, "at the bottom")
      assert.include(results[1]?.content, "a")
    })
  )

  it.live("what is too large is refused, and never kept whole", () =>
    Effect.gen(function* () {
      const url = yield* webServer((_request, response) => {
        response.writeHead(200, { "content-type": "text/plain" })
        const piece = "x".repeat(1024 * 1024)
        const more = (left: number): void => {
          if (left === 0) response.end()
          else response.write(piece, () => more(left - 1))
        }
        more(50)
      })
      const { results } = yield* extract([url]).pipe(allowed)
      assert.include(results[0]?.error, "too large")
    })
  )

  it.live("a long page is condensed by the side model, and cut without one", () =>
    Effect.gen(function* () {
      const url = yield* webServer(
        (_request, response) =>
          void response.writeHead(200, { "content-type": "text/plain" }).end("word ".repeat(10_000))
      )
      const asked: Array<Prompt.Message> = []
      const {
        results: [short]
      } = yield* extract([url]).pipe(
        allowed,
        Effect.provideService(SideModel, (_task, messages) =>
          Effect.sync(() => {
            asked.push(...messages)
            return "only words"
          })
        )
      )
      assert.include(short?.content, "only words")
      assert.lengthOf(asked, 1)
      const {
        results: [cut]
      } = yield* extract([url]).pipe(allowed)
      assert.isBelow(cut?.content.length ?? 0, 21_000)
      const {
        results: [failed]
      } = yield* extract([url]).pipe(
        allowed,
        Effect.provideService(SideModel, () => Effect.fail(new SideModelError({ message: "no money" })))
      )
      assert.strictEqual(failed?.error, null)
    })
  )

  it.effect("no address and too many of them are errors", () =>
    Effect.gen(function* () {
      assert.isTrue((yield* extract([])).isFailure)
      assert.isTrue((yield* extract(Array.from({ length: 6 }, () => "https://example.com"))).isFailure)
    })
  )
})

describe("addresses of a model", () => {
  it.live("blocked ones are never asked", () =>
    Effect.gen(function* () {
      const refused = (url: string, privateUrls: boolean) =>
        Effect.flip(Fetch.readPage(url)).pipe(
          Effect.provideService(Urls.UrlPolicy, { ...Urls.strict, allowPrivate: privateUrls }),
          Effect.map(({ reason }) => assert.strictEqual(reason, "blocked", url))
        )
      for (const url of [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://[::1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://10.0.0.1./",
        "file:///etc/passwd",
        "ftp://example.com",
        "http://",
        "javascript:1"
      ])
        yield* refused(url, false)
      for (const url of [
        "http://169.254.169.254/latest",
        "http://METADATA.google.internal./",
        "http://[::ffff:169.254.169.254]/",
        "http://no-such-host.invalid/",
        "http://8.8.8.8/?t=ghp_0123456789abcdefghijABCDEFGHIJ012345"
      ])
        yield* refused(url, true)
    })
  )

  it.live("a redirect is judged before it is followed, and there is an end to them", () =>
    Effect.gen(function* () {
      const url = yield* webServer(({ url }, response) => {
        const location =
          url === "/inside" ? "http://169.254.169.254/latest/meta-data" : url === "/moved" ? "/here" : "/again"
        if (url === "/here") response.writeHead(200, { "content-type": "text/plain" }).end("arrived")
        else response.writeHead(302, { location }).end()
      })
      const { results } = yield* extract([`${url}/inside`, `${url}/moved`, `${url}/again`]).pipe(allowed)
      assert.include(results[0]?.error, "Not fetched")
      assert.strictEqual(results[1]?.content, "arrived")
      assert.include(results[2]?.error, "redirects")
    })
  )
})

describe("web_search", () => {
  const engine = (name: string) =>
    webServer(({ headers, url = "" }, response, body) => {
      if (name !== "brave" ? body === "" : body !== "") return void response.writeHead(500).end()
      const key = headers["authorization"] ?? headers["x-api-key"] ?? headers["x-subscription-token"] ?? ""
      if (!String(key).endsWith("key")) return void response.writeHead(401).end()
      if (body.includes("nonsense") || url.includes("nonsense")) return void response.end("<html>")
      const results = Array.from({ length: 9 }, (_, index) => ({
        title: `<b>T${index}</b>`,
        url: `https://example.com/${index}`,
        content: "about it",
        text: "about it",
        description: "about <em>it</em>"
      }))
      response.end(JSON.stringify(name === "brave" ? { web: { results } } : { results }))
    })

  const search = (name: string, url: string, query: string, key = "key") => {
    const variables: Record<string, string> = { [`${name}_API_KEY`]: key, [`${name}_BASE_URL`]: url }
    const provider = SearchProvider.fromEnvironment((variable) => variables[variable])
    return callTool(WebTools.toolset, "web_search", { query }).pipe(
      Effect.provideService(SearchProvider.WebSearch, provider)
    )
  }

  it.live("finds up to five things by each engine, and says what is wrong", () =>
    Effect.gen(function* () {
      for (const name of ["TAVILY", "EXA", "BRAVE"]) {
        const url = yield* engine(name.toLowerCase())
        const { body } = yield* search(name, url, "herons")
        const data = body["data"] as { readonly web: ReadonlyArray<unknown> } // the shape that the tool promises
        assert.lengthOf(data.web, 5)
        assert.deepStrictEqual(data.web[0], { title: "T0", url: "https://example.com/0", description: "about it" })
        assert.include((yield* search(name, url, "herons", "wrong")).text, `${name}_API_KEY`)
        assert.isTrue((yield* search(name, url, "nonsense")).isFailure)
        assert.isTrue((yield* search(name, url, " ")).isFailure)
      }
    })
  )

  it.live("an engine that is down, redirects, sends garbage or too much is an error, or is cut", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const inner = yield* webServer((_request, response) => {
        asked.push("inner")
        response.end("{}")
      })
      const answering = (answer: Parameters<typeof webServer>[0]) =>
        Effect.flatMap(webServer(answer), (url) => search("TAVILY", url, "herons"))
      const failures = [
        yield* search("TAVILY", "http://127.0.0.1:1", "herons"),
        yield* answering((_, response) => response.writeHead(302, { location: inner }).end()),
        yield* answering((_, response) => response.writeHead(503).end("down")),
        yield* answering((_, response) => response.end("<html>not json")),
        yield* answering((_, response) => response.end('{"results": {}}')),
        yield* answering((_, response) => response.end("null")),
        yield* answering((_, response) => response.end(`{"results": [{"url": "${"x".repeat(5_000_000)}"}]}`)),
        yield* answering((request) => request.socket.destroy())
      ]
      for (const { isFailure, text } of failures) {
        assert.isTrue(isFailure)
        assert.isBelow(text.length, 500)
      }
      assert.isEmpty(asked)
      const results = [
        { url: "javascript:alert(1)", title: "no" },
        { url: "file:///etc/passwd", title: "no" },
        { url: "https://example.com/", title: "t".repeat(10_000), content: "d".repeat(100_000) }
      ]
      const { body } = yield* answering((_, response) => response.end(JSON.stringify({ results })))
      const data = body["data"] as {
        readonly web: ReadonlyArray<{ readonly title: string; readonly url: string; readonly description: string }>
      } // the shape that the tool promises
      assert.deepStrictEqual(
        data.web.map(({ description, title, url }) => [url, title.length, description.length]),
        [["https://example.com/", 300, 1000]]
      )
    })
  )

  it.effect("is there only with a key", () =>
    Effect.gen(function* () {
      assert.isUndefined(SearchProvider.fromEnvironment(() => undefined))
      const tools = yield* Effect.scoped(WebTools.toolset.bind)
      assert.deepStrictEqual(
        tools.map(({ tool }) => tool.name),
        ["web_extract"]
      )
    })
  )
})
