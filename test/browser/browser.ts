/** A headless Chromium, and pages of it that may not reach anything but their own file. */
import { existsSync } from "node:fs"
import { type Browser, chromium, type Page } from "playwright-core"

const usual = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe"
]

/** The browser; `HERMES_CHROMIUM` names another one. */
export const launch = async (): Promise<Browser> => {
  const executablePath = process.env["HERMES_CHROMIUM"] ?? usual.find((path) => existsSync(path))
  if (executablePath === undefined) {
    throw new Error(
      "there is no browser: install Chromium (Debian: apt-get install chromium), or set HERMES_CHROMIUM to the path of one"
    )
  }
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync"
    ]
  })
}

/** A page that was opened, and everything that it complained about or asked for. */
export interface Opened {
  readonly page: Page
  readonly complaints: ReadonlyArray<string>
}

/** Opens a file, or a page of the server `from`, which may ask that server for more. */
export const open = async (
  browser: Browser,
  url: string,
  options: {
    readonly width?: number
    readonly height?: number
    readonly scheme?: "light" | "dark"
    readonly from?: string
  } = {}
): Promise<Opened> => {
  const page = await browser.newPage({
    viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
    colorScheme: options.scheme ?? "light",
    reducedMotion: "reduce"
  })
  const complaints: Array<string> = []
  page.on("console", (message) => complaints.push(message.text()))
  page.on("pageerror", (error) => complaints.push(error.message))
  page.on("request", (request) => {
    const isOwn =
      options.from === undefined
        ? request.url() === url.split("#")[0]
        : request.url().startsWith(options.from) || request.url() === "data:,"
    if (!isOwn) complaints.push(`asked for ${request.url()}`)
  })
  await page.goto(url)
  return { page, complaints }
}

/**
 * Controls that cannot be used where they are: outside of the screen and of everything that scrolls, or covered by
 * something else.
 */
export const unreachable = (page: Page): Promise<ReadonlyArray<string>> =>
  page.evaluate(`(() => {
    const found = []
    for (const one of document.querySelectorAll("button, input, select, textarea, a[href], summary, [tabindex='0']")) {
      if (!one.checkVisibility({ checkVisibilityCSS: true }) || one.disabled || one.closest("dialog:not([open])")) continue
      const name = one.id || one.getAttribute("aria-label") || one.textContent.trim().slice(0, 40) || one.outerHTML.slice(0, 60)
      // Some show themselves to the focus alone.
      one.focus()
      one.scrollIntoView({ block: "nearest", inline: "nearest" })
      const { left, top, width, height } = one.getBoundingClientRect()
      if (width < 8 || height < 8) { found.push(name + ": " + width + " × " + height); continue }
      const x = left + Math.min(width, 40) / 2, y = top + Math.min(height, 16) / 2
      const above = document.elementFromPoint(x, y)
      if (above === null || !(one === above || one.contains(above) || above.contains(one))) {
        found.push(name + ": at " + Math.round(x) + ", " + Math.round(y) + " there is " + (above === null ? "nothing" : above.tagName + "#" + above.id + "." + above.className))
      }
    }
    return found
  })()`)

/**
 * Texts that are hard to read: a contrast to what is behind them below 4.5 (3 for large or bold ones that are large).
 */
export const faint = (page: Page): Promise<ReadonlyArray<string>> =>
  page.evaluate(`(() => {
    const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true })
    const read = (colour) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255] }
    const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)]
    const light = ([r, g, b]) => { const f = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4 }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b) }
    const found = new Set()
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const one = node.parentElement
      if (node.textContent.trim() === "" || !one.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) || one.closest("[disabled], [aria-disabled=true], option, script, style")) continue
      const chain = []
      for (let at = one; at !== null; at = at.parentElement) chain.unshift(at)
      const behind = chain.reduce((under, at) => over(read(getComputedStyle(at).backgroundColor), under), read(getComputedStyle(document.body).backgroundColor))
      const style = getComputedStyle(one)
      const text = over(read(style.color), behind)
      const [high, low] = [light(text), light(behind)].sort((a, b) => b - a)
      const ratio = (high + 0.05) / (low + 0.05)
      const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700)
      if (ratio < (isLarge ? 3 : 4.5)) found.add(one.tagName + "." + one.className + " " + node.textContent.trim().slice(0, 30) + ": " + ratio.toFixed(2))
    }
    return [...found]
  })()`)
