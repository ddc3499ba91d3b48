// The documentation as pages: the README, the guides and tours of scratchpad/, the READMEs of `src`, and a reference made
// of the doc comments of what the package exports. `renderSite` makes files of them.
import { Marked, type Tokens } from "marked"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join, posix, relative } from "node:path"
import { docsOf, readExports, surface } from "./api.ts"
import { entries } from "./entries.ts"
import { escapeHtml, highlightHtml, highlightStyle } from "./highlight.ts"
import { root, src } from "./sources.ts"
import { wings } from "./wings.ts"

/** A page of the site. */
export interface Page {
  readonly section: "Start" | "Guides" | "Tours" | "Architecture" | "Reference"
  readonly title: string
  /** Path in the site, without an ending. */
  readonly path: string
  /** The file that it shows, relative to the repository; links are read from there. */
  readonly source: string
  readonly markdown: string
}

const read = (path: string): string => readFileSync(join(root, path), "utf8")

const titleOf = (markdown: string, otherwise: string): string => /^# (.+)$/m.exec(markdown)?.[1] ?? otherwise

const page = (section: Page["section"], source: string, path: string): Page => {
  const markdown = read(source)
  return { section, source, path, markdown, title: titleOf(markdown, basename(path)) }
}

/** The text of a doc comment as Markdown. */
const prose = (comment: string): string =>
  comment
    .replaceAll(/^\s*\* ?/gm, "")
    .trim()
    .replaceAll(/\{@link ([^}\s]+)(?:\s+[^}]*)?\}/g, "`$1`")
    .replaceAll(/^@see /gm, "See ")
    .replaceAll(/^Source: [\s\S]*?(?:\n\n|(?![\s\S]))/gm, "")
    .trim()

const moduleComment = (text: string): string => prose(/^\/\*\*((?:(?!\*\/)[\s\S])*)\*\//.exec(text)?.[1] ?? "")

/** A section for each export: its comment and its declaration. */
const renderExports = (file: string): string => {
  const path = join(src, file)
  const docs = docsOf(path)
  return readExports(path)
    .map(
      ({ declaration, name }) => `## ${name}\n\n${prose(docs.get(name) ?? "")}\n\n\`\`\`ts\n${declaration}\n\`\`\`\n`
    )
    .join("\n")
}

/** Page of the exports of a file. */
const referencePage = (title: string, path: string, file: string): Page => ({
  section: "Reference",
  title,
  path: `reference/${path}`,
  source: `src/${file}`,
  markdown: `# ${title}\n\n\`src/${file}\`\n\n${moduleComment(readFileSync(join(src, file), "utf8"))}\n\n${renderExports(file)}`
})

/** Reference of the modules, and of the entries that export something besides modules. */
const reference = (): ReadonlyArray<Page> => {
  const text = surface()
  const modules = Array.from(text.matchAll(/^### (.+)\n\n(.+)\n\n```ts$/gm), ([, names = "", file = ""]) =>
    referencePage(names, names.split(", ")[0] ?? names, file)
  )
  const ofEntries = entries().flatMap(({ source, specifier }) => {
    const hasOwn = new RegExp(`^## ${specifier}\n(?:(?!^#)[\\s\\S])*?\`\`\`ts$`, "m").test(text)
    return hasOwn ? [referencePage(specifier, specifier.replaceAll("/", "-"), relative(src, source))] : []
  })
  return [...ofEntries, ...modules.toSorted((a, b) => (a.title < b.title ? -1 : 1))]
}

const markdownIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith(".md"))
    .toSorted()

/** A program as a page that shows it; its first comment is its text. */
const tour = (name: string): Page => ({
  section: "Tours",
  title: name
    .replace(/^\d+-|\.ts$/g, "")
    .replaceAll("-", " ")
    .replace(/\.ts$/, ""),
  path: `tours/${name.slice(0, -".ts".length)}`,
  source: `scratchpad/${name}`,
  markdown: `# ${name}\n\n\`\`\`ts\n${read(`scratchpad/${name}`)}\`\`\`\n`
})

/** The guides, in the order of their index. */
const guides = (): ReadonlyArray<Page> => {
  const index = page("Guides", "scratchpad/guides/README.md", "guides/index")
  const place = (name: string): number => index.markdown.indexOf(`](${name})`)
  const names = markdownIn("scratchpad/guides")
    .filter((name) => name !== "README.md")
    .toSorted((a, b) => place(a) - place(b))
  return [index, ...names.map((name) => page("Guides", `scratchpad/guides/${name}`, `guides/${name.slice(0, -3)}`))]
}

/** Every page, in the order of the contents. */
export const sitePages = (): ReadonlyArray<Page> => [
  page("Start", "README.md", "index"),
  ...["CHANGELOG", "CONTRIBUTING", "SECURITY"].map((name) => page("Start", `.github/${name}.md`, name.toLowerCase())),
  page("Start", ".github/action/README.md", "github-action"),
  ...guides(),
  ...readdirSync(join(root, "scratchpad"))
    .filter((name) => /^\d+-.*\.ts$/.test(name))
    .toSorted()
    .map(tour),
  page("Architecture", "src/README.md", "rooms/index"),
  ...["", ...Object.keys(wings)]
    .flatMap((folder) => readdirSync(join(src, folder)).map((name) => posix.join(folder, name)))
    .filter((folder) => existsSync(join(src, folder, "README.md")))
    .toSorted()
    .map((folder) => page("Architecture", `src/${folder}/README.md`, `rooms/${folder.replaceAll("/", "-")}`)),
  ...reference()
]

/** The anchor of a heading, as GitHub names it. */
export const slug = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(/\s/g, "-")

/** The first sentence of a page, in plain words. */
const summary = (markdown: string): string => {
  const paragraph =
    markdown
      .replaceAll(/^```[\s\S]*?^```/gm, "")
      .split(/\n{2,}/)
      .find((part) => /^[A-Za-z`*[]/.test(part) && !part.startsWith("`src/")) ?? ""
  const plain = paragraph.replaceAll(/\[([^\]]+)\]\([^)]*\)/g, "$1").replaceAll("\n", " ")
  return (/^.*?\.(?=\s|$)/.exec(plain)?.[0] ?? plain).slice(0, 200).replace(/:$/, ".")
}

const style = `:root{color-scheme:light dark;--line:#8884;--soft:#8881;font:16px/1.55 system-ui,sans-serif}
body{margin:0;background:light-dark(#fff,#16181c);color:light-dark(#16181c,#e6e6e6);display:grid;grid-template-columns:17rem minmax(0,60rem);gap:2rem}
nav{border-right:1px solid var(--line);padding:1rem;height:100vh;overflow:auto;position:sticky;top:0;box-sizing:border-box;font-size:.9rem}
nav ul{list-style:none;padding:0;margin:.2rem 0}nav summary{font-weight:600;cursor:pointer}
main{padding:1rem 1rem 6rem;overflow-wrap:anywhere}td,th{overflow-wrap:normal}td code,th code{overflow-wrap:anywhere}pre,code{font:.85rem/1.45 ui-monospace,monospace;background:var(--soft);border-radius:4px}
pre{padding:.8rem;overflow:auto}pre code{background:none}code{padding:.1em .25em}pre code{padding:0}
table{border-collapse:collapse;display:block;overflow:auto}td,th{border:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}
input{width:100%;box-sizing:border-box;font:inherit;padding:.3rem}a{color:light-dark(#2460c8,#8ab4f8)}
img{max-width:100%;height:auto}select{font:inherit;margin:0 0 .5rem}nav a{text-decoration:none}nav a[aria-current]{font-weight:600;color:inherit}code.language-text{white-space:pre-wrap;overflow-wrap:anywhere}
@media(max-width:55rem){body{display:block}nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}}
${highlightStyle}`

/**
 * Closes the contents on a narrow screen, where they stand above the page. Finds pages by words; the index is loaded
 * when somebody begins to type, as a script, so that it works from a folder too.
 */
const script = `if(matchMedia("(max-width:55rem)").matches)for(const section of document.querySelectorAll("nav details"))section.open=false
const field=document.querySelector("input"),list=document.querySelector("#found"),base=document.body.dataset.base
const show=()=>{const words=field.value.toLowerCase().split(/\\s+/).filter(Boolean),items=(words.length===0?[]:window.pages.map(p=>({p,score:words.reduce((sum,w)=>{const t=p.title.toLowerCase().includes(w)?20:0,n=p.text.split(w).length-1
return sum<0||t+n===0?-1:sum+t+Math.min(n,10)},0)})).filter(x=>x.score>0).sort((a,b)=>b.score-a.score).slice(0,20).map(({p})=>{const item=document.createElement("li"),link=document.createElement("a")
link.href=base+p.path+".html";link.textContent=p.title+" ("+p.section+")";item.append(link);return item}))
list.replaceChildren(...items);if(words.length>0&&items.length===0)list.textContent="Nothing found"}
field.addEventListener("input",()=>{if(window.pages)return show();if(document.querySelector("#index"))return
const s=document.createElement("script");s.id="index";s.src=base+"search.js";s.onload=show;document.head.append(s)})`

/** Offers the released versions of the page. `versions.js` is beside the folders of all versions. */
const versionsScript = `const chosen=document.querySelector("#versions"),page=location.pathname.split("/").slice(-document.body.dataset.base.split("/").length).join("/")
for(const version of window.versions??[])chosen.append(new Option(version,version,false,version===chosen.dataset.version))
chosen.addEventListener("change",()=>{location.href=base+"../"+chosen.value+"/"+page})`

/** Options of {@link renderSite}. */
export interface SiteOptions {
  readonly pages?: ReadonlyArray<Page> | undefined
  /** Version of a released site, which is in a folder of that name beside the other versions. */
  readonly version?: string | undefined
}

/** The pictures of all pages by their paths in the site. */
export const readImages = (): ReadonlyMap<string, Uint8Array> => {
  const folder = join(root, "scratchpad/guides/images")
  return new Map(readdirSync(folder).map((name) => [`images/${name}`, readFileSync(join(folder, name))] as const))
}

/** Index of all pages with their summaries for language models. `linkOf` returns the path of a page. */
export const renderLlms = (pages: ReadonlyArray<Page>, linkOf: (page: Page) => string): string => {
  const { description, name }: { readonly name: string; readonly description: string } = JSON.parse(
    read("package.json")
  )
  const list = (section: Page["section"]) =>
    pages
      .filter((one) => one.section === section)
      .map((one) => {
        const text = one.section === "Tours" ? "" : summary(one.markdown)
        return `- [${one.title}](${linkOf(one)})${text === "" ? "" : `: ${text}`}`
      })
      .join("\n")
  const sections = (["Start", "Guides", "Tours", "Reference"] as const).map((one) => `## ${one}\n\n${list(one)}\n\n`)
  return `# ${name}\n\n> ${description}\n\n${sections.join("")}## Optional\n\n${list("Architecture")}\n`
}

/**
 * The files of the site by their paths: a page of HTML and one of Markdown for each, the index of the search,
 * `llms.txt`.
 */
export const renderSite = ({ pages = sitePages(), version }: SiteOptions = {}): ReadonlyMap<string, string> => {
  const bySource = new Map(pages.map((one) => [one.source, one] as const))
  const { name }: { readonly name: string } = JSON.parse(read("package.json"))

  /** The page that a link of another one means; undefined where no page shows that file. */
  const linked = (from: Page, target: string): Page | undefined => {
    const path = relative(root, join(root, dirname(from.source), target)).replaceAll("\\", "/")
    return bySource.get(path) ?? bySource.get(posix.join(path, "README.md"))
  }

  const html = (from: Page): string => {
    const up = "../".repeat(from.path.split("/").length - 1)
    const marked = new Marked({
      renderer: {
        // Texts such as <provider> are meant as they stand; comments mark the files of examples.
        html: ({ text }: Tokens.HTML | Tokens.Tag) => (text.trimStart().startsWith("<!--") ? "" : escapeHtml(text)),
        heading({ depth, text, tokens }: Tokens.Heading) {
          return `<h${depth} id="${slug(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`
        },
        image: ({ href, text }: Tokens.Image) =>
          `<img src="${up}images/${escapeHtml(basename(href))}" alt="${escapeHtml(text)}">`,
        code({ lang = "", text }: Tokens.Code) {
          const language = lang.split(" ")[0] ?? ""
          return `<pre><code class="language-${escapeHtml(language)}">${highlightHtml(text, language)}</code></pre>\n`
        },
        link({ href, tokens }: Tokens.Link) {
          const text = this.parser.parseInline(tokens)
          if (/^(?:https?:|mailto:|#)/.test(href)) return `<a href="${escapeHtml(href)}">${text}</a>`
          const [path = "", anchor] = href.split("#")
          const found = linked(from, path)
          return found === undefined
            ? text
            : `<a href="${up}${found.path}.html${anchor === undefined ? "" : `#${anchor}`}">${text}</a>`
        }
      }
    })
    const sections = ["Start", "Guides", "Tours", "Architecture", "Reference"] as const
    const contents = sections
      .map(
        (section) =>
          `<details${section === from.section || section === "Guides" ? " open" : ""}><summary>${section}</summary><ul>${pages
            .filter((one) => one.section === section)
            .map(
              (one) =>
                `<li><a href="${up}${one.path}.html"${one === from ? ' aria-current="page"' : ""}>${escapeHtml(one.title)}</a></li>`
            )
            .join("")}</ul></details>`
      )
      .join("\n")
    const versions =
      version === undefined
        ? ""
        : `<select id="versions" data-version="${escapeHtml(version)}" aria-label="Version"></select>`
    const scripts =
      version === undefined
        ? `<script>${script}</script>`
        : `<script src="${up}../versions.js"></script><script>${script}\n${versionsScript}</script>`
    return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(from.title)} · ${name}</title><style>${style}</style></head>
<body data-base="${up}"><nav>${versions}<input type="search" placeholder="Search" aria-label="Search"><ul id="found"></ul>
${contents}</nav><main>
${marked.parse(from.markdown, { async: false })}</main>${scripts}</body></html>
`
  }

  const index = pages.map((one) => ({
    title: one.title,
    section: one.section,
    path: one.path,
    text: one.markdown.toLowerCase().replaceAll(/\s+/g, " ")
  }))
  return new Map([
    ...pages.flatMap(
      (one) =>
        [
          [`${one.path}.html`, html(one)],
          [`${one.path}.md`, one.markdown]
        ] as const
    ),
    ["search.js", `window.pages=${JSON.stringify(index).replaceAll("<", "\\u003c")}\n`] as const,
    ["llms.txt", renderLlms(pages, ({ path }) => `${path}.md`)] as const
  ])
}
