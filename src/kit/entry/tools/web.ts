/** Tools that search the web and read pages, and the address checks that restrict them. */
export * as WebTools from "../../../tools/builtin/WebTools.ts"
export * as SearchProvider from "../../../tools/builtin/SearchProvider.ts"
export * as Urls from "../../../tools/fence/Urls.ts"
