"use strict";(self.rspackChunkslipway=self.rspackChunkslipway||[]).push([[968],{60(e,o,r){var t=r(59),a=r.n(t),p=r(324),i=(r.n(p))()(a());i.push([e.id,`.jp-slipway-Panel {
  padding: 0 8px 8px;
  overflow: auto;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  line-height: 1.4;
}

.jp-slipway-Panel p {
  margin: 4px 0;
}

.jp-slipway-Panel a {
  color: var(--jp-content-link-color);
  text-decoration: underline;
  overflow-wrap: anywhere;
}

.jp-slipway-Panel :is(a, button, input, select, summary, pre):focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

.jp-slipway-Section {
  padding: 4px 0 8px;
  border-bottom: 1px solid var(--jp-border-color2);
}

.jp-slipway-Section > summary {
  display: list-item;
  padding: 4px 0;
  cursor: pointer;
}

.jp-slipway-Section h2 {
  display: inline;
  margin: 0 8px 0 0;
  font-size: inherit;
  font-weight: 600;
}

/* The theme's colours for less important text are too weak to read: it is as strong as all text, and smaller. */
.jp-slipway-Hint {
  font-size: var(--jp-ui-font-size0);
}

.jp-slipway-Trouble,
.jp-slipway-Said {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 8px;
  align-items: baseline;
  justify-content: space-between;
  margin: 8px 0;
  padding: 6px 8px;
  border: 1px solid var(--jp-border-color1);
  border-left: 4px solid var(--jp-info-color1);
  background: var(--jp-layout-color1);
}

.jp-slipway-Said {
  position: sticky;
  top: 4px;
  z-index: 1;
  overflow-wrap: anywhere;
}

.jp-slipway-Trouble {
  border-left-color: var(--jp-warn-color1);
}

.jp-slipway-Said.jp-mod-good {
  border-left-color: var(--jp-success-color1);
}

.jp-slipway-Said.jp-mod-bad {
  border-left-color: var(--jp-error-color1);
}

.jp-slipway-List {
  margin: 4px 0;
  padding: 0;
  list-style: none;
}

.jp-slipway-Row {
  margin: 6px 0;
  padding-left: 6px;
  border-left: 4px solid var(--jp-border-color1);
}

.jp-slipway-Row.jp-mod-running {
  border-left-color: var(--jp-info-color1);
}

.jp-slipway-Row.jp-mod-done {
  border-left-color: var(--jp-success-color1);
}

.jp-slipway-Row.jp-mod-failed {
  border-left-color: var(--jp-error-color1);
}

.jp-slipway-Row-head {
  display: flex;
  gap: 8px;
  justify-content: space-between;
}

.jp-slipway-State {
  flex: none;
  font-size: var(--jp-ui-font-size0);
}

.jp-slipway-Words {
  overflow-wrap: anywhere;
}

.jp-slipway-Row progress {
  width: 100%;
  height: 8px;
}

.jp-slipway-Buttons {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  margin: 4px 0;
}

.jp-slipway-Button {
  min-height: 24px;
  padding: 2px 8px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  background: var(--jp-layout-color2);
  color: var(--jp-ui-font-color1);
  font: inherit;
  cursor: pointer;
}

.jp-slipway-Button:hover {
  background: var(--jp-layout-color3);
}

.jp-slipway-Field,
.jp-slipway-Form {
  display: grid;
  gap: 4px;
  margin: 4px 0;
}

.jp-slipway-Form {
  justify-items: start;
}

.jp-slipway-Form .jp-slipway-Field {
  width: 100%;
}

.jp-slipway-Field :is(input, select) {
  box-sizing: border-box;
  width: 100%;
  min-height: 26px;
  border: 1px solid var(--jp-ui-font-color2);
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: inherit;
}

.jp-slipway-Meter {
  display: grid;
  grid-template-columns: 7em 1fr auto;
  gap: 8px;
  align-items: center;
}

.jp-slipway-Meter meter {
  width: 100%;
}

.jp-slipway-Log {
  max-height: 20em;
  margin: 4px 0;
  padding: 4px;
  overflow: auto;
  border: 1px solid var(--jp-border-color1);
  background: var(--jp-layout-color0);
  color: var(--jp-content-font-color1);
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-code-font-size);
  white-space: pre-wrap;
  overflow-wrap: anywhere;
}

.jp-slipway-Slices {
  width: 100%;
  border-collapse: collapse;
}

.jp-slipway-Slices :is(th, td) {
  padding: 2px 8px 2px 0;
  text-align: left;
}

.jp-slipway-Unseen {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}
`,""]),r.d(o,{},{A:i})},324(e){e.exports=function(e){var o=[];return o.toString=function(){return this.map(function(o){var r="",t=void 0!==o[5];return o[4]&&(r+="@supports (".concat(o[4],") {")),o[2]&&(r+="@media ".concat(o[2]," {")),t&&(r+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),r+=e(o),t&&(r+="}"),o[2]&&(r+="}"),o[4]&&(r+="}"),r}).join("")},o.i=function(e,r,t,a,p){"string"==typeof e&&(e=[[null,e,void 0]]);var i={};if(t)for(var n=0;n<this.length;n++){var l=this[n][0];null!=l&&(i[l]=!0)}for(var s=0;s<e.length;s++){var c=[].concat(e[s]);t&&i[c[0]]||(void 0!==p&&(void 0===c[5]||(c[1]="@layer".concat(c[5].length>0?" ".concat(c[5]):""," {").concat(c[1],"}")),c[5]=p),r&&(c[2]&&(c[1]="@media ".concat(c[2]," {").concat(c[1],"}")),c[2]=r),a&&(c[4]?(c[1]="@supports (".concat(c[4],") {").concat(c[1],"}"),c[4]=a):c[4]="".concat(a)),o.push(c))}},o}},59(e){e.exports=function(e){return e[1]}},34(e){var o=[];function r(e){for(var r=-1,t=0;t<o.length;t++)if(o[t].identifier===e){r=t;break}return r}function t(e,t){for(var a={},p=[],i=0;i<e.length;i++){var n=e[i],l=t.base?n[0]+t.base:n[0],s=a[l]||0,c="".concat(l," ").concat(s);a[l]=s+1;var d=r(c),u={css:n[1],media:n[2],sourceMap:n[3],supports:n[4],layer:n[5]};if(-1!==d)o[d].references++,o[d].updater(u);else{var f=function(e,o){var r=o.domAPI(o);return r.update(e),function(o){o?(o.css!==e.css||o.media!==e.media||o.sourceMap!==e.sourceMap||o.supports!==e.supports||o.layer!==e.layer)&&r.update(e=o):r.remove()}}(u,t);t.byIndex=i,o.splice(i,0,{identifier:c,updater:f,references:1})}p.push(c)}return p}e.exports=function(e,a){var p=t(e=e||[],a=a||{});return function(e){e=e||[];for(var i=0;i<p.length;i++){var n=r(p[i]);o[n].references--}for(var l=t(e,a),s=0;s<p.length;s++){var c=r(p[s]);0===o[c].references&&(o[c].updater(),o.splice(c,1))}p=l}}},121(e){var o={};e.exports=function(e,r){var t=function(e){if(void 0===o[e]){var r=document.querySelector(e);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(e){r=null}o[e]=r}return o[e]}(e);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(r)}},222(e){e.exports=function(e){var o=document.createElement("style");return e.setAttributes(o,e.attributes),e.insert(o,e.options),o}},882(e,o,r){e.exports=function(e){var o=r.nc;o&&e.setAttribute("nonce",o)}},531(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=e.insertStyleElement(e);return{update:function(r){var t,a,p;t="",r.supports&&(t+="@supports (".concat(r.supports,") {")),r.media&&(t+="@media ".concat(r.media," {")),(a=void 0!==r.layer)&&(t+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),t+=r.css,a&&(t+="}"),r.media&&(t+="}"),r.supports&&(t+="}"),(p=r.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(p))))," */")),e.styleTagTransform(t,o,e.options)},remove:function(){var e;null===(e=o).parentNode||e.parentNode.removeChild(e)}}}},723(e){e.exports=function(e,o){if(o.styleSheet)o.styleSheet.cssText=e;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(e))}}},619(e,o,r){var t=r(34),a=r.n(t),p=r(531),i=r.n(p),n=r(121),l=r.n(n),s=r(882),c=r.n(s),d=r(222),u=r.n(d),f=r(723),y=r.n(f),w=r(60),v={};v.styleTagTransform=y(),v.setAttributes=c(),v.insert=l().bind(null,"head"),v.domAPI=i(),v.insertStyleElement=u(),a()(w.A,v),w.A&&w.A.locals&&w.A.locals}}]);