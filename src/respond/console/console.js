var pt=globalThis,ft=pt.ShadowRoot&&(pt.ShadyCSS===void 0||pt.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,ce=Symbol(),le=new WeakMap,mt=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==ce)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if(ft&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=le.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&le.set(e,t))}return t}toString(){return this.cssText}},he=r=>new mt(typeof r=="string"?r:r+"",void 0,ce);var de=(r,t)=>{if(ft)r.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),n=pt.litNonce;n!==void 0&&s.setAttribute("nonce",n),s.textContent=e.cssText,r.appendChild(s)}},Ut=ft?r=>r:r=>r instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return he(e)})(r):r;var{is:ms,defineProperty:fs,getOwnPropertyDescriptor:gs,getOwnPropertyNames:ws,getOwnPropertySymbols:$s,getPrototypeOf:bs}=Object,gt=globalThis,ue=gt.trustedTypes,ys=ue?ue.emptyScript:"",vs=gt.reactiveElementPolyfillSupport,et=(r,t)=>r,Mt={toAttribute(r,t){switch(t){case Boolean:r=r?ys:null;break;case Object:case Array:r=r==null?r:JSON.stringify(r)}return r},fromAttribute(r,t){let e=r;switch(t){case Boolean:e=r!==null;break;case Number:e=r===null?null:Number(r);break;case Object:case Array:try{e=JSON.parse(r)}catch{e=null}}return e}},me=(r,t)=>!ms(r,t),pe={attribute:!0,type:String,converter:Mt,reflect:!1,useDefault:!1,hasChanged:me};Symbol.metadata??=Symbol("metadata"),gt.litPropertyMetadata??=new WeakMap;var L=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=pe){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),n=this.getPropertyDescriptor(t,s,e);n!==void 0&&fs(this.prototype,t,n)}}static getPropertyDescriptor(t,e,s){let{get:n,set:i}=gs(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:n,set(o){let a=n?.call(this);i?.call(this,o),this.requestUpdate(t,a,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??pe}static _$Ei(){if(this.hasOwnProperty(et("elementProperties")))return;let t=bs(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(et("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(et("properties"))){let e=this.properties,s=[...ws(e),...$s(e)];for(let n of s)this.createProperty(n,e[n])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,n]of e)this.elementProperties.set(s,n)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let n=this._$Eu(e,s);n!==void 0&&this._$Eh.set(n,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let n of s)e.unshift(Ut(n))}else t!==void 0&&e.push(Ut(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return de(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),n=this.constructor._$Eu(t,s);if(n!==void 0&&s.reflect===!0){let i=(s.converter?.toAttribute!==void 0?s.converter:Mt).toAttribute(e,s.type);this._$Em=t,i==null?this.removeAttribute(n):this.setAttribute(n,i),this._$Em=null}}_$AK(t,e){let s=this.constructor,n=s._$Eh.get(t);if(n!==void 0&&this._$Em!==n){let i=s.getPropertyOptions(n),o=typeof i.converter=="function"?{fromAttribute:i.converter}:i.converter?.fromAttribute!==void 0?i.converter:Mt;this._$Em=n;let a=o.fromAttribute(e,i.type);this[n]=a??this._$Ej?.get(n)??a,this._$Em=null}}requestUpdate(t,e,s,n=!1,i){if(t!==void 0){let o=this.constructor;if(n===!1&&(i=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??me)(i,e)||s.useDefault&&s.reflect&&i===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:n,wrapped:i},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),i!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),n===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[n,i]of this._$Ep)this[n]=i;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[n,i]of s){let{wrapped:o}=i,a=this[n];o!==!0||this._$AL.has(n)||a===void 0||this.C(n,void 0,i,a)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};L.elementStyles=[],L.shadowRootOptions={mode:"open"},L[et("elementProperties")]=new Map,L[et("finalized")]=new Map,vs?.({ReactiveElement:L}),(gt.reactiveElementVersions??=[]).push("2.1.2");var Nt=globalThis,fe=r=>r,wt=Nt.trustedTypes,ge=wt?wt.createPolicy("lit-html",{createHTML:r=>r}):void 0,It="$lit$",U=`lit$${Math.random().toFixed(9).slice(2)}$`,jt="?"+U,_s=`<${jt}>`,H=document,rt=()=>H.createComment(""),nt=r=>r===null||typeof r!="object"&&typeof r!="function",Dt=Array.isArray,_e=r=>Dt(r)||typeof r?.[Symbol.iterator]=="function",qt=`[ 	
\f\r]`,st=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,we=/-->/g,$e=/>/g,j=RegExp(`>|${qt}(?:([^\\s"'>=/]+)(${qt}*=${qt}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),be=/'/g,ye=/"/g,Re=/^(?:script|style|textarea|title)$/i,Ht=r=>(t,...e)=>({_$litType$:r,strings:t,values:e}),l=Ht(1),xe=Ht(2),kr=Ht(3),v=Symbol.for("lit-noChange"),u=Symbol.for("lit-nothing"),ve=new WeakMap,D=H.createTreeWalker(H,129);function Se(r,t){if(!Dt(r)||!r.hasOwnProperty("raw"))throw Error("invalid template strings array");return ge!==void 0?ge.createHTML(t):t}var ke=(r,t)=>{let e=r.length-1,s=[],n,i=t===2?"<svg>":t===3?"<math>":"",o=st;for(let a=0;a<e;a++){let c=r[a],d,p,h=-1,m=0;for(;m<c.length&&(o.lastIndex=m,p=o.exec(c),p!==null);)m=o.lastIndex,o===st?p[1]==="!--"?o=we:p[1]!==void 0?o=$e:p[2]!==void 0?(Re.test(p[2])&&(n=RegExp("</"+p[2],"g")),o=j):p[3]!==void 0&&(o=j):o===j?p[0]===">"?(o=n??st,h=-1):p[1]===void 0?h=-2:(h=o.lastIndex-p[2].length,d=p[1],o=p[3]===void 0?j:p[3]==='"'?ye:be):o===ye||o===be?o=j:o===we||o===$e?o=st:(o=j,n=void 0);let f=o===j&&r[a+1].startsWith("/>")?" ":"";i+=o===st?c+_s:h>=0?(s.push(d),c.slice(0,h)+It+c.slice(h)+U+f):c+U+(h===-2?a:f)}return[Se(r,i+(r[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},it=class r{constructor({strings:t,_$litType$:e},s){let n;this.parts=[];let i=0,o=0,a=t.length-1,c=this.parts,[d,p]=ke(t,e);if(this.el=r.createElement(d,s),D.currentNode=this.el.content,e===2||e===3){let h=this.el.content.firstChild;h.replaceWith(...h.childNodes)}for(;(n=D.nextNode())!==null&&c.length<a;){if(n.nodeType===1){if(n.hasAttributes())for(let h of n.getAttributeNames())if(h.endsWith(It)){let m=p[o++],f=n.getAttribute(h).split(U),$=/([.?@])?(.*)/.exec(m);c.push({type:1,index:i,name:$[2],strings:f,ctor:$[1]==="."?bt:$[1]==="?"?yt:$[1]==="@"?vt:F}),n.removeAttribute(h)}else h.startsWith(U)&&(c.push({type:6,index:i}),n.removeAttribute(h));if(Re.test(n.tagName)){let h=n.textContent.split(U),m=h.length-1;if(m>0){n.textContent=wt?wt.emptyScript:"";for(let f=0;f<m;f++)n.append(h[f],rt()),D.nextNode(),c.push({type:2,index:++i});n.append(h[m],rt())}}}else if(n.nodeType===8)if(n.data===jt)c.push({type:2,index:i});else{let h=-1;for(;(h=n.data.indexOf(U,h+1))!==-1;)c.push({type:7,index:i}),h+=U.length-1}i++}}static createElement(t,e){let s=H.createElement("template");return s.innerHTML=t,s}};function B(r,t,e=r,s){if(t===v)return t;let n=s!==void 0?e._$Co?.[s]:e._$Cl,i=nt(t)?void 0:t._$litDirective$;return n?.constructor!==i&&(n?._$AO?.(!1),i===void 0?n=void 0:(n=new i(r),n._$AT(r,e,s)),s!==void 0?(e._$Co??=[])[s]=n:e._$Cl=n),n!==void 0&&(t=B(r,n._$AS(r,t.values),n,s)),t}var $t=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,n=(t?.creationScope??H).importNode(e,!0);D.currentNode=n;let i=D.nextNode(),o=0,a=0,c=s[0];for(;c!==void 0;){if(o===c.index){let d;c.type===2?d=new K(i,i.nextSibling,this,t):c.type===1?d=new c.ctor(i,c.name,c.strings,this,t):c.type===6&&(d=new _t(i,this,t)),this._$AV.push(d),c=s[++a]}o!==c?.index&&(i=D.nextNode(),o++)}return D.currentNode=H,n}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},K=class r{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,n){this.type=2,this._$AH=u,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=n,this._$Cv=n?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=B(this,t,e),nt(t)?t===u||t==null||t===""?(this._$AH!==u&&this._$AR(),this._$AH=u):t!==this._$AH&&t!==v&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):_e(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==u&&nt(this._$AH)?this._$AA.nextSibling.data=t:this.T(H.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,n=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=it.createElement(Se(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===n)this._$AH.p(e);else{let i=new $t(n,this),o=i.u(this.options);i.p(e),this.T(o),this._$AH=i}}_$AC(t){let e=ve.get(t.strings);return e===void 0&&ve.set(t.strings,e=new it(t)),e}k(t){Dt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,n=0;for(let i of t)n===e.length?e.push(s=new r(this.O(rt()),this.O(rt()),this,this.options)):s=e[n],s._$AI(i),n++;n<e.length&&(this._$AR(s&&s._$AB.nextSibling,n),e.length=n)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=fe(t).nextSibling;fe(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},F=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,n,i){this.type=1,this._$AH=u,this._$AN=void 0,this.element=t,this.name=e,this._$AM=n,this.options=i,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=u}_$AI(t,e=this,s,n){let i=this.strings,o=!1;if(i===void 0)t=B(this,t,e,0),o=!nt(t)||t!==this._$AH&&t!==v,o&&(this._$AH=t);else{let a=t,c,d;for(t=i[0],c=0;c<i.length-1;c++)d=B(this,a[s+c],e,c),d===v&&(d=this._$AH[c]),o||=!nt(d)||d!==this._$AH[c],d===u?t=u:t!==u&&(t+=(d??"")+i[c+1]),this._$AH[c]=d}o&&!n&&this.j(t)}j(t){t===u?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},bt=class extends F{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===u?void 0:t}},yt=class extends F{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==u)}},vt=class extends F{constructor(t,e,s,n,i){super(t,e,s,n,i),this.type=5}_$AI(t,e=this){if((t=B(this,t,e,0)??u)===v)return;let s=this._$AH,n=t===u&&s!==u||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,i=t!==u&&(s===u||n);n&&this.element.removeEventListener(this.name,this,s),i&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},_t=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){B(this,t)}},Ee={M:It,P:U,A:jt,C:1,L:ke,R:$t,D:_e,V:B,I:K,H:F,N:yt,U:vt,B:bt,F:_t},Rs=Nt.litHtmlPolyfillSupport;Rs?.(it,K),(Nt.litHtmlVersions??=[]).push("3.3.3");var Ae=(r,t,e)=>{let s=e?.renderBefore??t,n=s._$litPart$;if(n===void 0){let i=e?.renderBefore??null;s._$litPart$=n=new K(t.insertBefore(rt(),i),i,void 0,e??{})}return n._$AI(r),n};var Bt=globalThis,y=class extends L{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=Ae(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return v}};y._$litElement$=!0,y.finalized=!0,Bt.litElementHydrateSupport?.({LitElement:y});var xs=Bt.litElementPolyfillSupport;xs?.({LitElement:y});(Bt.litElementVersions??=[]).push("4.2.2");function Rt(){document.activeElement===document.body&&document.querySelector("main")?.focus()}var xt="html";function St({name:r}){return r.replace(/^_/,"")}function Ce(r){return Object.keys(r.components?.securitySchemes??{}).length>0}var{compare:Ss}=new Intl.Collator("en",{numeric:!0}),Te=({name:r})=>r.replaceAll("/","	");function Oe(r){return Object.entries(r.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>ks(r,t,e)).sort((t,e)=>Ss(Te(t),Te(e)))}function Wt(r){try{return decodeURI(r)}catch{return r}}function ks(r,t,e){let s=(e.parameters??[]).map(d=>{let p=Ft(r,d);return p.schema?p.schema.type!=="object"?p:{...p,schema:{...p.schema,format:"conditions"}}:{...p,schema:{format:"json"}}}),n=({name:d,schema:p})=>!d.startsWith("_")||p.type==="object",o=(s.find(d=>d.name==="_format")?.schema.enum??[]).map(String),a=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],c=a?Ft(r,a).properties:void 0;return{path:t,name:Wt(t),summary:e.summary??"",params:s.filter(n),controls:new Set(s.map(d=>d.name).filter(d=>d.startsWith("_"))),formats:o.filter(d=>d!==xt),hasPage:o.includes(xt),columns:Object.entries(c??{}).map(([d,p])=>({name:d,schema:Ft(r,p)})),needsToken:(e.security??[]).some(d=>Object.keys(d).length>0)}}function Ft(r,t){let e=t.$ref;if(!e)return t;let s=r;for(let n of e.slice(2).split("/"))s=s[n];return s}var Pe={string:"text",date:"date","date-time":"timestamp","date-time-local":"timestamp without zone","time-local":"time",duration:"duration",uuid:"uuid",json:"json",conditions:"conditions"};function ot({type:r,format:t="",items:e,anyOf:s}){if(s)return ot(s[0]);let n=[r??"any"].flat()[0];return n==="array"?e?`${ot(e)}[]`:"list":Pe[t]??Pe[n]??n}var zt="rowstream.token",S=new URL("./",location.href.split("#")[0]),Le=new URL("../",S),E=()=>sessionStorage.getItem(zt)??"";function Ue(r){r?sessionStorage.setItem(zt,r):sessionStorage.removeItem(zt)}function _(r,t={}){let e=new Headers(t.headers);return E()&&e.set("Authorization",`Bearer ${E()}`),fetch(r,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function C(r){try{return await r.json()}catch{return{status:r.status,title:r.statusText||`status ${r.status}`}}}async function at(r,t={}){let e=await _(new URL(r,S),t);if(!e.ok)throw await C(e);return await e.json()}var M={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},N=r=>(...t)=>({_$litDirective$:r,values:t}),O=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:Es}=Ee,Me=r=>r;var Ne=r=>r.strings===void 0,qe=()=>document.createComment(""),Y=(r,t,e)=>{let s=r._$AA.parentNode,n=t===void 0?r._$AB:t._$AA;if(e===void 0){let i=s.insertBefore(qe(),n),o=s.insertBefore(qe(),n);e=new Es(i,o,r,r.options)}else{let i=e._$AB.nextSibling,o=e._$AM,a=o!==r;if(a){let c;e._$AQ?.(r),e._$AM=r,e._$AP!==void 0&&(c=r._$AU)!==o._$AU&&e._$AP(c)}if(i!==n||a){let c=e._$AA;for(;c!==i;){let d=Me(c).nextSibling;Me(s).insertBefore(c,n),c=d}}}return e},I=(r,t,e=r)=>(r._$AI(t,e),r),As={},Q=(r,t=As)=>r._$AH=t,Ie=r=>r._$AH,kt=r=>{r._$AR(),r._$AA.remove()};var Jt=N(class extends O{constructor(){super(...arguments),this.key=u}render(r,t){return this.key=r,t}update(r,[t,e]){return t!==this.key&&(Q(r),this.key=t),e}});var lt=N(class extends O{constructor(r){if(super(r),r.type!==M.PROPERTY&&r.type!==M.ATTRIBUTE&&r.type!==M.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!Ne(r))throw Error("`live` bindings can only contain a single expression")}render(r){return r}update(r,[t]){if(t===v||t===u)return t;let e=r.element,s=r.name;if(r.type===M.PROPERTY){if(t===e[s])return v}else if(r.type===M.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return v}else if(r.type===M.ATTRIBUTE&&e.getAttribute(s)===t+"")return v;return Q(r),t}});var je=(r,t,e)=>{let s=new Map;for(let n=t;n<=e;n++)s.set(r[n],n);return s},De=N(class extends O{constructor(r){if(super(r),r.type!==M.CHILD)throw Error("repeat() can only be used in text expressions")}dt(r,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let n=[],i=[],o=0;for(let a of r)n[o]=s?s(a,o):o,i[o]=e(a,o),o++;return{values:i,keys:n}}render(r,t,e){return this.dt(r,t,e).values}update(r,[t,e,s]){let n=Ie(r),{values:i,keys:o}=this.dt(t,e,s);if(!Array.isArray(n))return this.ut=o,i;let a=this.ut??=[],c=[],d,p,h=0,m=n.length-1,f=0,$=i.length-1;for(;h<=m&&f<=$;)if(n[h]===null)h++;else if(n[m]===null)m--;else if(a[h]===o[f])c[f]=I(n[h],i[f]),h++,f++;else if(a[m]===o[$])c[$]=I(n[m],i[$]),m--,$--;else if(a[h]===o[$])c[$]=I(n[h],i[$]),Y(r,c[$+1],n[h]),h++,$--;else if(a[m]===o[f])c[f]=I(n[m],i[f]),Y(r,n[h],n[m]),m--,f++;else if(d===void 0&&(d=je(o,f,$),p=je(a,h,m)),d.has(a[h]))if(d.has(a[m])){let R=p.get(o[f]),V=R!==void 0?n[R]:null;if(V===null){let ae=Y(r,n[h]);I(ae,i[f]),c[f]=ae}else c[f]=I(V,i[f]),Y(r,n[h],V),n[R]=null;f++}else kt(n[m]),m--;else kt(n[h]),h++;for(;f<=$;){let R=Y(r,c[$+1]);I(R,i[f]),c[f++]=R}for(;h<=m;){let R=n[h++];R!==null&&kt(R)}return this.ut=o,Q(r,c),v}});var Ts=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),He=["B","KB","MB","GB","TB"],g=r=>Ts.format(r),X=(r,t)=>r===1?t:`${t}s`;function k(r){let t=0;for(;r>=1e3&&t<He.length-1;)r/=1e3,t+=1;return`${r<10&&t>0?r.toFixed(1):r.toFixed(0)} ${He[t]}`}function A(r){if(r<1)return"< 1 ms";if(r<1e3)return`${r.toFixed(0)} ms`;if(r<6e4)return`${(r/1e3).toFixed(1)} s`;let t=Math.floor(r/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var x=class extends Error{constructor(e,s){let{code:n,hint:i,retry_after:o}=e,a=String(e.detail??`HTTP status ${s}, without a reason`);super(typeof n=="string"?`${n}: ${a}`:a);this.problem=e;this.name="RowstreamError";this.rows=0;this.detail=a,this.status=typeof e.status=="number"?e.status:s,this.retry=e.retry===!0,typeof n=="string"&&(this.code=n),typeof i=="string"&&(this.hint=i),typeof o=="number"&&(this.retryAfter=Math.max(0,o))}},W=class extends Error{constructor(e,{rows:s,cursor:n},i){super(`the stream is incomplete after ${s} rows: ${e}; ${n?"continue with the parameter _after and the error's cursor":"read it again from the start"}`,{cause:i});this.reason=e;this.name="IncompleteStream";this.rows=s,this.cursor=n}},w=class extends Error{constructor(e,s=!0,n){super(e);this.retry=s;this.cause=n}};var Be=128<<20,Et=class{#t=new TextDecoder("utf-8",{fatal:!0,ignoreBOM:!0});#e=new Uint8Array(0);#s=0;push(t){let e=t.lastIndexOf(10),s=e<0?[]:this.#n(t.subarray(0,e)).split(`
`);if(this.#r(t.subarray(e+1)),this.#s>Be)throw new w(`a row is longer than ${Be>>20} MiB; read its lists from endpoints of their own`,!1);return s}#n(t){if(this.#s===0)return Fe(this.#t,t);this.#r(t);let e=this.#e.subarray(0,this.#s);return[this.#e,this.#s]=[new Uint8Array(0),0],Fe(this.#t,e)}#r(t){let e=this.#s+t.length;if(e>this.#e.length){let s=new Uint8Array(Math.max(e,2*this.#e.length));s.set(this.#e.subarray(0,this.#s)),this.#e=s}this.#e.set(t,this.#s),this.#s=e}};function Fe(r,t,e){try{return r.decode(t,e)}catch(s){throw new w("a part isn't UTF-8",!0,s)}}var Ps=2**31-1,At=class{constructor(t,e){this.timeout=e;this.#e=t,t?.addEventListener("abort",this.#n),t?.aborted&&this.#n()}#t=new AbortController;#e;#s;#n=()=>{this.#t.abort(),this.#s?.()};#r;async open(t,e,s){this.#r?.cancel().catch(()=>{});let n={headers:s,signal:this.#t.signal,redirect:"manual"},i=await this.#i(t(e,n));return this.#r=i.body?.getReader(),i}async call(t){this.#e?.throwIfAborted();let e,s=await this.#i((async()=>t())().catch(n=>{e={error:n}}));if(e)throw e.error;return s}async read(){return this.#r&&(await this.#i(this.#r.read())).value}async text(t){let e=new TextDecoder,s="";for(let n=await this.read();n&&(s+=e.decode(n,{stream:!0}),!(s.length>t));n=await this.read());return s}finish(){this.timeout=1e3,this.text(1e3).catch(()=>{}).finally(()=>this.close())}close(){this.#e?.removeEventListener("abort",this.#n),this.#t.abort()}async#i(t){let e,s=new Promise((n,i)=>{this.#s=i,this.#e?.aborted&&i();let o=()=>i(new w(`nothing arrived for ${this.timeout/1e3} seconds`));this.timeout>0&&(e=setTimeout(o,Math.min(this.timeout,Ps)))});try{return await Promise.race([t,s])}catch(n){throw this.#e?.throwIfAborted(),n instanceof w?n:new w("the connection was lost",!0,n)}finally{clearTimeout(e)}}};var Cs=[408,429,502,503,504],We=65536,ze=1e4,Tt=class{constructor(t,e,s){this.options=e;if(this.#t=new URL(t,globalThis.location?.href),this.#t.username||this.#t.password)throw new TypeError("the URL has a user or a password; send them in the option headers, as Authorization");this.query=this.#t.searchParams,this.query.has("_numbers")||this.query.set("_numbers","string");for(let[i,o]of Object.entries({...e.params,...s}))o==null?this.query.delete(i):this.query.set(i,String(o));this.#e=new Headers(e.headers);let{token:n}=e;if(n!=null){if(this.#e.has("Authorization"))throw new TypeError("the option headers has an Authorization beside token; leave one of them out");typeof n!="function"&&this.#i(n)}}#t;#e;#s;connect(){return new At(this.options.signal,this.options.firstRowTimeout??0)}async open(t){let{status:e,headers:s}=await this.#n(t,this.#t);if(e===401&&typeof this.options.token=="function"&&({status:e,headers:s}=await this.#n(t,this.#t)),e===0||e>=300&&e<400)throw new x({detail:"the URL redirects, and the client doesn't follow; use the new URL"},e);if(e!==200)throw t.timeout=ze,Os(e,s,await t.text(We));return t.timeout=this.options.readTimeout??3e3*Number(s.get("rowstream-heartbeat")),s}async reason(t){let e=t.get("rowstream-stream");if(!e)return;let s=/^(\.\/|(\.\.\/)+)$/.exec(t.get("rowstream-root")??"")?.[0]??"/",n=this.connect();n.timeout=ze;try{let{ok:i}=await this.#n(n,new URL(`${s}_rowstream/streams/${encodeURIComponent(e)}`,this.#t)),{error:o}=i?JSON.parse(await n.text(We)):{};return o&&new x(o,500)}catch{this.options.signal?.throwIfAborted();return}finally{n.close()}}async#n(t,e){let{token:s}=this.options;return typeof s=="function"&&this.#i(await t.call(()=>this.#r(s))),t.open(this.options.fetch??fetch,e,this.#e)}#r(t){return this.#s??=(async()=>t())().finally(()=>{this.#s=void 0})}#i(t){if(typeof t!="string"||!/^[!-~]+$/.test(t))throw new TypeError("the token isn't one word of visible ASCII characters: check the option token");this.#e.set("Authorization",`Bearer ${t}`)}};function Os(r,t,e){if(t.get("content-type")?.startsWith("application/problem+json"))try{return new x(JSON.parse(e),r)}catch{}let s=Number(t.get("retry-after")??void 0),n=Number.isInteger(s)?{retry_after:s}:{};return new x({retry:Cs.includes(r),...n},r)}var Je={int64:r=>{if(!/^-?\d+$/.test(String(r)))return r;if(typeof r=="number"&&!Number.isSafeInteger(r))throw new RangeError(`${r} may have lost digits: remove the parameter _numbers from the request`);return BigInt(r)}};function Gt(r,t){let e=[];for(let{name:s,type:n,columns:i}of r){let o=i&&Gt(i,t);o&&e.push([s,c=>(c.forEach(o),c)]);let a=Object.hasOwn(t,n)?t[n]:void 0;a&&e.push([s,a])}if(e.length!==0)return s=>{for(let[n,i]of e){let o=s[n];o!=null&&(s[n]=i(o))}}}var Ls=32<<20,Pt=class{constructor(t,e,s,n){this.framing=t;this.delivery=s;this.converters=n;this.isPastCursor=!1;this.#s=0;this.#n={rows:[],cursors:new Map};this.#r=[];this.#i=0;this.#a={};this.#t=`{"$rowstream":"${e}",`}#t;#e;#s;#n;#r;#i;#o;#a;line(t){this.framing==="sse"?this.#l(t):t.startsWith(this.#t)?this.#p(t):t!==""&&this.#d(t)}#l(t){let[,e,s]=/^(event|data|id): (.*)$/s.exec(t)??[];if(e==="event")this.#a.type=s;else if(e==="data"){if(this.#a.data!==void 0)throw new w("the end of an event is missing");this.#a.data=s}else if(e==="id")this.#a.id=s;else if(t===""){let{type:n,data:i,id:o}=this.#a;if(this.#a={},i===void 0)return;if(n==="rowstream"&&i.startsWith(this.#t))return this.#p(i);this.#d(i),o&&this.#c&&(this.#u(),this.#h(o))}}take(){let t=this.#n;return this.#n={rows:[],cursors:new Map},t}flush(){this.#r.length===0||this.delivery==="marked"&&this.#i<Ls||this.#h(void 0)}get#c(){return this.delivery!=="final"}#h(t){let{rows:e,cursors:s}=this.#n;if(this.#r.length>0&&(this.isPastCursor=this.delivery!=="revocable"),e.length===0)this.#n.rows=this.#r;else for(let n of this.#r)e.push(n);[this.#r,this.#i]=[[],0],t!==void 0&&([this.cursor,this.isPastCursor]=[t,!1],s.set(this.#n.rows.length,t))}#d(t){if(this.#u(),!this.columns)throw new w("the columns are missing");let e;try{if(e=JSON.parse(t),typeof e!="object"||e===null||Array.isArray(e))throw new TypeError("it isn't an object")}catch(s){this.#o=s;return}this.#e?.(e),this.#s+=1,this.#r.push(this.converters?e:t),this.#i+=t.length}#p(t){let e;try{e=JSON.parse(t)}catch(s){throw new w("a record isn't whole",!0,s)}if(e.error)throw new x(e.error,500);if(this.#u(),e.columns){if(!Array.isArray(e.columns))throw new w("the columns aren't a list");this.columns=e.columns,this.#e=this.converters&&Gt(e.columns,this.converters)}else if(e.mark){if(this.#m(e.mark.rows),typeof e.mark.next!="string")throw new w("a mark has no cursor");this.#c&&this.#h(e.mark.next)}else e.end&&(this.#m(e.end.rows),this.#h(e.end.next),this.end=e.end)}#u(){if(this.#o)throw new w("a row isn't whole",!0,this.#o)}#m(t){if(t!==this.#s)throw new w(`the server sent ${t} rows, but ${this.#s} arrived`,this.framing==="ndjson")}};var[Us,Ms,qs]=[100,1e4,3e5],Ct=class{constructor(t,e,s){this.options=e;this.isTail=s;this.columns=[];this.rows=0;this.bytes=0;this.resumed=0;this.marked=0;this.#e=!1;this.#n=0;this.#r=0;this.#i=!1;this.#o=0;let n=s?{_format:"sse",_follow:"1",_end:"1"}:{_format:"ndjson",_end:"1"};this.#t=new Tt(t,e,n),this.cursor=this.#s=this.#t.query.get("_after")??void 0}#t;#e;#s;#n;#r;#i;#o;[Symbol.asyncIterator](){let t=this.#l(),{signal:e}=this.options,[s,n]=[[],new Map],i=0,o,a=()=>{let p=n.get(i);p!==void 0&&([this.cursor,this.marked]=[p,this.rows])},c=()=>{let p=s[i++];return this.rows+=1,a(),{done:!1,value:p}},d=async()=>{for(;i===s.length||e?.aborted;){let p=await t.next();if(p.done)return p;({rows:s,cursors:n}=p.value),i=0,a()}return c()};return{next:()=>{if(!o&&i<s.length&&!e?.aborted)return Promise.resolve(c());let p=o?o.then(d):d(),h=()=>{o===p&&(o=void 0)};return p.then(h,h),o=p},return:async()=>([s,i]=[[],0],await t.return(),{done:!0,value:void 0}),[Symbol.asyncIterator](){return this}}}async collect(t=1e5){let e=[];for await(let{rows:s}of this.#l()){e.length=this.#n-s.length;for(let n of s)e.push(n);if(e.length>t)throw new RangeError(`there are more than ${t} rows; iterate over them, or collect(more)`)}return this.#a(e.length),e}async*batches(){for await(let{rows:t}of this.#l())this.#a(t.length),t.length>0&&(yield t)}#a(t){this.rows+=t,[this.cursor,this.marked]=[this.#s,this.#r]}async*#l(){if(this.#e)throw new Error("these rows have been read; call rows() again to read them again");for(this.#e=!0;;){try{if(yield*this.#c(),!this.isTail)return;throw new w("the server ended the live tail")}catch(t){await this.#p(t)}this.resumed+=1}}async*#c(){let t=this.#t.connect(),e;try{this.#s!==void 0&&this.#t.query.set("_after",this.#s);let s=await this.#t.open(t),n=Date.now();e=this.#d(s);let[i,o]=[new Et,t.timeout/3];try{for(;!e.end;){let a=await t.read();if(!a)throw new w("the end is missing");this.bytes+=a.length,this.isTail&&Date.now()-n>o&&(this.#o=0),yield*this.#h(e,i,a)}this.page=e.end.page}catch(a){throw(a instanceof w&&a.retry?await this.#t.reason(s):void 0)??a}}finally{e?.end?t.finish():t.close()}}*#h(t,e,s){let n;try{for(let o of e.push(s))if(t.line(o),t.end)break}catch(o){n=o}t.flush();let i=t.take();this.columns=t.columns??this.columns,t.cursor!==void 0&&t.cursor!==this.#s&&(this.#s=t.cursor,this.#o=0);for(let o of i.cursors.keys())this.#r=this.#n+o;if(this.#n+=i.rows.length,this.#i=t.isPastCursor,(i.rows.length>0||i.cursors.size>0)&&(yield i),this.options.signal?.throwIfAborted(),n!==void 0)throw n}#d(t){let e=t.get("rowstream-tag"),s=t.get("rowstream-wire");if(!e||!s){let p=e?"Rowstream-Wire":"Rowstream-Tag";throw new w(`the header ${p} is missing: the URL isn't an endpoint, or CORS or a proxy hides it`,!1)}if(s!=="1")throw new w(`it has version ${s} of the wire: update this package`,!1);let n=t.get("rowstream-snapshot");n&&this.#t.query.has("_shard")&&this.#t.query.set("_snapshot",n);let i=["marks","ids"].includes(t.get("rowstream-resume")??""),{as:o,convert:a,rewind:c}=this.options,d=i?c?"revocable":"marked":"final";return new Pt(this.isTail?"sse":"ndjson",e,d,o==="text"?void 0:{...Je,...a})}async#p(t){let e=t instanceof x;if(!e&&!(t instanceof w))throw t;let s=e?1e3*(t.retryAfter??0):0,n=this.options.retries??(this.isTail?20:5);if(t.retry&&!this.#i&&this.#o<n&&s<=qs)return this.#n=this.#r,this.rows=Math.min(this.rows,this.#r),this.options.rewind?.(this.rows,t),this.#u(s);let i=this.#i&&this.rows>0,a={rows:i?this.rows:Math.min(this.rows,this.#r),cursor:i?void 0:this.cursor};throw e?Object.assign(t,a):new W(t.message,a,t.cause)}async#u(t){let e=Math.min(Us*2**this.#o,Ms);this.#o+=1;let{signal:s}=this.options;await new Promise(n=>{let i=()=>{clearTimeout(o),s?.removeEventListener("abort",i),n()},o=setTimeout(i,t+e*(.5+Math.random()/2));s?.addEventListener("abort",i),s?.aborted&&i()}),s?.throwIfAborted()}};function Vt(r,t={}){return new Ct(r,t,!1)}function Kt(r,t={}){return new Ct(r,t,!0)}var Ot=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#e=0;this.#s=!1;this.#n=[];this.#r=0;this.#i=0}#t;#e;#s;#n;#r;#i;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#s){this.#t.push(t),this.#e+=t.length,this.#s=this.#t.length>=1e4||this.#e>=8388608;return}let e=this.#n.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#n.push(e)),e.lines.push(t),e.text+=t.length,this.#r+=1,this.#i+=t.length,(this.#r>=10500||this.#i>8388608)&&this.#o()}#o(){if(this.#n.length<2)return;let t=this.#n.shift();this.#r-=t.lines.length,this.#i-=t.text}#a(t){for(let[e,s]of ht(t)){let n=this.columns.get(e)??{letters:e.length,isLong:!1};n.letters=Math.min(Math.max(n.letters,s.length),48),n.isLong||=s.length>48,s!=="null"&&(n.isNumber=n.isNumber!==!1&&/^[-\d]/.test(s)),this.columns.set(e,n)}}get#l(){return this.total-this.#t.length-this.#r}get length(){return this.#t.length+(this.#l>0?1:0)+this.#r}get text(){return this.#e+this.#i}get kept(){return this.#t.length+this.#r}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let n=this.#t.length+s+e+1;for(let i of this.#n){if(e<i.lines.length)return{row:n,line:i.lines[e]};e-=i.lines.length}}cutTo(t){for(;this.total>t;){let e=this.#l===0;this.total-=1;let s=this.#n.at(-1);if(!s){if(!e)continue;this.#e-=this.#t.pop()?.length??0,this.#s=!1;continue}let n=s.lines.pop()?.length??0;s.text-=n,this.#i-=n,this.#r-=1,s.lines.length===0&&this.#n.pop()}}};function ht(r){let t=ct(r,0);if(r[t]!=="{")return[["value",r.trim()]];let e=[];for(t=ct(r,t+1);r[t]==='"';){let s=Ge(r,t),n=JSON.parse(r.slice(t,s)),i=ct(r,ct(r,s)+1),o=Ns(r,i);e.push([n,r.slice(i,o).trimEnd()]),t=ct(r,o+1)}return e}function ct(r,t){for(;r[t]===" "||r[t]==="	";)t+=1;return t}function Ge(r,t){for(t+=1;t<r.length&&r[t]!=='"';t+=1)r[t]==="\\"&&(t+=1);return t+1}function Ns(r,t){let e=0;for(;t<r.length;){let s=r[t];if(s==='"'){t=Ge(r,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function Ve(r){let t=r[0];return t==='"'?{kind:"text",text:JSON.parse(r)}:t==="{"||t==="["?{kind:"json",text:r}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:r}}var Qe=["ndjson","sse","json-seq"],Ke=1e5,Is=4e3,js=30,Z=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.again="";this.resumed=0;this.status=0;this.bytes=0;this.rows=new Ot;this.text="";this.#t="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#e=new AbortController;this.#s=!1;this.#n=0;this.#a=async(t,e)=>{let s=new URL(t);if(s.pathname.startsWith("/_rowstream/streams/"))return _(new URL(s.pathname.slice(12),S),e);let n=await _(s,e);return this.#l(n),n}}#t;#e;#s;#n;get isRows(){return this.asked.reads==="rows"||this.asked.reads==="tail"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#s=!0,this.#e.abort()}async start(){await this.#r(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#s=!1,this.#e=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.status=0,this.changed(),await this.#r(t)}async#r(t){let e=!1,s=async()=>{e||(e=!0,await this.#f().finally(()=>e=!1))},n=setInterval(()=>{s()},1e3);try{await(this.isRows?this.#o(t):this.#c(t))}catch(o){this.#i(o)}finally{clearInterval(n)}this.ended=performance.now(),this.again="",this.changed();let i=this.state==="cancelled"||this.state==="truncated";await this.#f(i?5:1),this.state==="unproved"&&this.#m(),this.state==="truncated"&&this.#u(),this.changed()}#i(t){this.#s?this.state="cancelled":t instanceof x?(this.state="failed",this.problem={status:t.status,detail:t.detail,...t.problem}):this.status===0?(this.state="failed",this.problem={title:"The server cannot be reached",detail:Ye(t)}):(this.state="truncated",this.why=Ye(t))}async#o(t){let e=this.rows.total,{headers:s}=this.asked,n=(d,p)=>{this.rows.cutTo(e+d),this.again=p.message,this.resumed+=1,this.changed()},a=(this.asked.reads==="tail"?Kt:Vt)(t,{as:"text",params:{_numbers:null},headers:s,signal:this.#e.signal,fetch:this.#a,rewind:n}),c=0;try{for await(let d of a.batches()){this.firstRow??=performance.now()-this.started;for(let h of d)this.rows.push(h);let p=a.bytes-c;c=a.bytes,await this.#d(p)}this.state="complete"}finally{this.bytes+=a.bytes-c,a.cursor!==void 0&&(this.mark={next:a.cursor,rows:e+a.marked})}}#a;#l({ok:t,status:e,headers:s}){this.status=e,t&&(this.state="running",this.again="",this.stream=s.get("Rowstream-Stream")??"",this.timing=Ds(s.get("Server-Timing")),this.changed())}async#c(t){let e=await _(t,{headers:this.asked.headers,signal:this.#e.signal});if(this.#l(e),!e.ok)throw new x(await C(e),e.status);let s=new TextDecoder,n=e.body?.getReader();for(let i=await n?.read();i?.value;i=await n?.read())this.asked.reads==="text"&&this.#h(s.decode(i.value,{stream:!0})),await this.#d(i.value.byteLength);this.#p(e)}#h(t){this.text.length<Ke&&(this.text+=t.slice(0,Ke-this.text.length)),this.#t=(this.#t+t).slice(-Is)}async#d(t){this.bytes+=t,this.changed(),this.limit>0&&await this.#w(t),performance.now()-this.#n>js&&(await new Promise(e=>setTimeout(e)),this.#n=performance.now())}#p({headers:t,status:e}){let s=t.get("Rowstream-Tag");if(s){let n=this.#t.includes(`{"$rowstream":"${s}","end":`);this.state=n?"complete":"truncated",n||(this.why="it ended without the record of its end")}else this.state=t.has("Content-Length")||e===204?"complete":"unproved"}#u(){this.report?.error&&(this.why=`the server says: ${this.report.state}`,this.problem=this.report.error)}#m(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`):this.report.bytes===this.bytes&&(this.state="complete"))}async#f(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await _(new URL(`streams/${this.stream}`,S));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#w(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#e.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(n=>setTimeout(n,Math.min(s,200)))}}};function Ye(r){return r instanceof W?r.cause instanceof Error?`${r.reason} (${r.cause.message})`:r.reason:String(r)}function Ds(r){return(r??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function tt({title:r,status:t,code:e,detail:s,hint:n,sqlstate:i}){return l`<div class="problem" role="alert">
    <h2>${t?l`<span>${t}</span>`:u} ${r??e??"It failed"}</h2>
    ${s?l`<p>${s}</p>`:u} ${n?l`<p class="hint">${n}</p>`:u}
    <p class="quiet">
      ${e?l`<a href=${new URL(`errors/${e}`,S).href} target="_blank" rel="noreferrer">What ${e} means</a>`:u}
      ${i?l` SQLSTATE ${i}`:u}
    </p>
  </div>`}var Yt=class extends y{static{this.properties={request:{attribute:!1},statements:{state:!0},problem:{state:!0}}}constructor(){super(),this.statements=[]}createRenderRoot(){return this}async#t(){let t=this.request();if(t){this.problem=void 0;try{this.statements=await Xe(t)}catch(e){this.statements=[],this.problem=e instanceof Error?{title:"There is no plan",detail:e.message}:e}}}render(){return l`<details class="card plan">
      <summary>SQL and its plan</summary>
      <p>The SQL, and how the database would run it with these parameters. Nothing is run.</p>
      <div class="actions"><button type="button" @click=${()=>this.#t()}>Explain</button></div>
      <div role="status">
        ${this.statements.map(({name:t,sql:e,plan:s})=>l`<section aria-label=${t}>
            ${this.statements.length>1?l`<h2>${t}</h2>`:u}
            <pre tabindex="0" role="region" aria-label="SQL of ${t}">${e}</pre>
            <pre tabindex="0" role="region" aria-label="Plan of ${t}">${Hs(s)}</pre>
          </section>`)}
      </div>
      ${this.problem?tt(this.problem):u}
    </details>`}};async function Xe(r){let t=new URL(r.url);for(let s of["_end","_follow","_after"])t.searchParams.delete(s);t.searchParams.set("_format","json"),t.searchParams.set("_explain","1");let e=await _(t,{headers:r.headers});if(!e.ok)throw await C(e);return(await e.json()).statements}async function Ze(r){let t=await Xe(r).catch(()=>[]),e=t.length===1?t[0].plan:[],s=/\brows=(\d+)/.exec(String(e[0]?.["QUERY PLAN"]))?.[1]??(e.length===1?e[0].rows:void 0);return s==null?void 0:Number(s)}function Hs(r){let[t]=r;if(!t)return"";if("detail"in t&&"parent"in t)return ts(r,0,"").join(`
`);let e=Object.keys(t),s=r.map(o=>e.map(a=>String(o[a]??"")));if(e.length===1)return s.join(`
`);let n=e.map((o,a)=>Math.max(o.length,...s.map(c=>c[a].length))),i=o=>o.map((a,c)=>a.padEnd(n[c])).join("  ").trimEnd();return[i(e),...s.map(i)].join(`
`)}function ts(r,t,e){return r.filter(s=>s.parent===t).flatMap(s=>[e+String(s.detail),...ts(r,s.id,`${e}  `)])}customElements.define("rs-plan",Yt);function ss(r,t,e,s){let n=e==="ndjson"&&r.searchParams.has("_end"),i=s?{Authorization:"Bearer $TOKEN",...t}:t;return[{name:"curl",text:Bs(r,i,e)},{name:"JavaScript",text:n?Ws(r,i):Fs(r,i)},{name:"Python",text:n?Js(r,i):zs(r,i)}]}var es=r=>`'${r.replaceAll("'","'\\''")}'`;function Bs(r,t,e){let s=Object.entries(t).map(([i,o])=>o.includes("$TOKEN")?`  -H "${i}: ${o}"`:`  -H ${es(`${i}: ${o}`)}`),n=e==="arrow"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...s,...n,`  ${es(r.href)}`].join(` \\
`)}function rs(r){return Object.keys(r).length===0?"":`, { headers: { ${Object.entries(r).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: \`${s.replace("$TOKEN","${token}")}\``:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")} } }`}function Fs(r,t){return`const response = await fetch(${JSON.stringify(r.href)}${rs(t)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws if the answer is cut.
const text = await response.text();`}function Ws(r,t){return`const response = await fetch(${JSON.stringify(r.href)}${rs(t)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("the answer is not whole");`}function ns(r){return Object.keys(r).length===0?"":`, headers={${Object.entries(r).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: f"${s.replace("$TOKEN","{token}")}"`:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")}}`}function zs(r,t){return`import requests

response = requests.get(${JSON.stringify(r.href)}${ns(t)})
response.raise_for_status()
body = response.content  # it raises if the answer is cut`}function Js(r,t){return`import json, requests

end = None
with requests.get(${JSON.stringify(r.href)}${ns(t)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("the answer is not whole")`}var Qt=class extends O{render(t){return v}update(t,[e]){return Object.assign(t.element.style,e),v}},T=N(Qt);var Gs=250,Vs=/^process_resident_memory_bytes (\S+)$/m,Xt=class extends y{static{this.properties={request:{attribute:!1},sides:{state:!0},rows:{state:!0},problem:{state:!0},isRunning:{state:!0}}}#t=new AbortController;constructor(){super(),this.sides=[],this.rows=0,this.isRunning=!1}createRenderRoot(){return this}disconnectedCallback(){super.disconnectedCallback(),this.#t.abort()}async#e(){let t=this.request();if(!(!t||this.isRunning)){this.isRunning=!0,this.sides=[],this.problem=void 0,this.#t=new AbortController;try{for(let e of[this.#n,this.#r])this.sides=[...this.sides,await this.#s(e,t)]}catch(e){let s=this.#t.signal.aborted?"Stopped":"The comparison failed";this.problem=e instanceof Error?{title:s,detail:e.message}:e}this.isRunning=!1}}async#s(t,e){let s=0,n=async()=>{let o=await _(new URL("metrics",S)).catch(()=>{}),a=o?.ok?Vs.exec(await o.text()):null;s=Math.max(s,Number(a?.[1]??0))};await n();let i=setInterval(()=>{n()},Gs);try{return{...await t(e),server:s}}finally{clearInterval(i)}}#n=async({url:t,headers:e})=>{let s=0,n=new Z({url:is(t,"ndjson"),headers:e,reads:"rows"},()=>{s=Math.max(s,n.rows.text)});if(this.#t.signal.addEventListener("abort",()=>n.cancel()),await n.start(),n.problem)throw n.problem;if(n.state!=="complete"&&n.state!=="unproved")throw new Error(n.why||"It was stopped.");return this.rows=n.rows.total,{name:"As rows come",firstRow:n.firstRow??n.elapsed,whole:n.elapsed,held:s}};#r=async({url:t,headers:e})=>{let s=performance.now(),n=await _(is(t,"json"),{headers:e,signal:this.#t.signal});if(!n.ok)throw await C(n);let i=await n.text();JSON.parse(i);let o=performance.now()-s;return{name:"Read whole, then parsed",firstRow:o,whole:o,held:i.length}};render(){return l`<details class="card compare">
      <summary>Compare with reading it whole</summary>
      <p>
        Reads the answer twice: as its rows come, and as most clients do, whole and then parsed. The second holds all of
        it in this tab.
      </p>
      <div class="actions">
        <button
          type="button"
          class=${this.isRunning?"stop":""}
          @click=${()=>this.isRunning?this.#t.abort():this.#e()}
        >
          ${this.isRunning?"Stop":"Compare"}
        </button>
        <span class="quiet" role="status">
          ${this.isRunning?"Reading …":this.sides.length===2?`${g(this.rows)} ${X(this.rows,"row")}, twice`:""}
        </span>
      </div>
      ${this.problem?tt(this.problem):u} ${this.sides.length?this.#i():u}
    </details>`}#i(){let t=(e,s,n)=>{let i=Math.max(...this.sides.map(s),1e-9);return l`<tr>
        <th scope="row">${e}</th>
        ${this.sides.map(o=>l`<td>
            ${n(s(o))}
            <div class="bar" aria-hidden="true">
              <i class="database" ${T({flexGrow:String(s(o)/i)})}></i
              ><i ${T({flexGrow:String(1-s(o)/i)})}></i>
            </div>
          </td>`)}
      </tr>`};return l`<table>
      <thead>
        <tr>
          <td></td>
          ${this.sides.map(({name:e})=>l`<th scope="col">${e}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${t("First row after",({firstRow:e})=>e,A)}
        ${t("All rows after",({whole:e})=>e,A)}
        ${t("Text held in this tab",({held:e})=>e,k)}
        ${this.sides.every(({server:e})=>e>0)?t("Memory of the server, at most",({server:e})=>e,k):u}
      </tbody>
    </table>`}};function is(r,t){let e=new URL(r);return e.searchParams.set("_format",t),e.searchParams.delete("_follow"),t!=="ndjson"&&e.searchParams.delete("_end"),e}customElements.define("rs-compare",Xt);var z=29,os=8,Ks=7.9,Ys=26,Zt=class extends y{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#e(){return this.querySelector(".scroller")}updated(){let t=this.#e;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#e,[s,n]=[e?.scrollTop??0,e?.clientHeight||600],i=Math.max(0,Math.min(Math.floor(s/z),this.rows.length)-os),o=Math.min(this.rows.length,Math.ceil((s+n)/z)+os),a=[];for(let h=i;h<o;h+=1){let m=this.rows.at(h);m&&a.push(this.#s(h,m,t))}let c=[g(this.rows.total).length,...t.map(([,{letters:h}])=>h)].map(h=>Math.round(h*Ks+Ys)),d=`${c.reduce((h,m)=>h+m)}px`,p=t.map(([,h])=>h.isLong);return l`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#i}
    >
      <div class="sizer" ${T({height:`${(this.rows.length+1)*z}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${T({top:`${i*z}px`,minWidth:d,width:p.includes(!0)?"100%":d})}
        >
          <colgroup>
            ${c.map((h,m)=>l`<col ${T({width:p[m-1]?"":`${h}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="at">#</th>
              ${t.map(([h,{isNumber:m}])=>l`<th scope="col" class=${m?"number":""} title=${h}>${h}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${a}
          </tbody>
        </table>
      </div>
    </div>`}#s(t,e,s){if("from"in e){let i=`rows ${g(e.from)} to ${g(e.to)} have passed and aren't kept`;return l`<tr class="gap"><td colspan=${s.length+1}><span>${i}</span></td></tr>`}let n=new Map(ht(e.line));return l`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#n(t)}
      @dblclick=${()=>this.#r(t)}
    >
      <th scope="row" class="at">${g(e.row)}</th>
      ${s.map(([i])=>Qs(n.get(i)))}
    </tr>`}#n(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#e;if(!e)return;let s=this.picked*z,n=e.scrollTop+e.clientHeight-3*z;s<e.scrollTop?e.scrollTop=s:s>n&&(e.scrollTop+=s-n)}#r(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#i(t){let e=Math.floor((this.#e?.clientHeight??0)/z)-2,n={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#r(this.picked);else if(n!==void 0)this.#n(Math.max(-1,this.picked)+n);else return;t.preventDefault()}};function Qs(r){if(r===void 0)return l`<td></td>`;let{kind:t,text:e}=Ve(r),s=e.length>300?`${e.slice(0,300)}…`:e;return l`<td class=${t} title=${e.length>30?s:u}>${s}</td>`}customElements.define("rs-table",Zt);var dt=[0,4e6,1e6,25e4,5e4,1e4],Xs=1e3,Zs=["pool","database","encode","client"],as={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},tr={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},te=class extends y{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=new Set;#e=!1;#s=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#n()}disconnectedCallback(){super.disconnectedCallback(),this.#n()}#n(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said="",this.#t.clear()}#r=()=>{this.#e||(this.#e=!0,requestAnimationFrame(()=>{this.#e=!1,this.requestUpdate()}))};get#i(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#o(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}get#a(){return this.#i==="arrow"?"bytes":this.#i!=="ndjson"?"text":this.#o&&this.endpoint.formats.includes("sse")?"tail":"rows"}#l(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of this.endpoint.params){let a=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(a));else{if(a==="")continue;if(o.in==="header")s[o.name]=a;else if(o.schema.type==="object")for(let[c,d]of new URLSearchParams(a))e.append(c,d);else for(let c of er(o,a))e.append(o.name,c)}}let n=this.#i;n&&e.set("_format",n),Qe.includes(n)&&this.endpoint.controls.has("_end")&&e.set("_end","1"),this.#o&&e.set("_follow","1");let i=new URL(t.replace(/^\//,"./"),Le);return i.search=e.toString(),{url:i,headers:s}}#c(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let n=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${n&&`?${n}`}`)}#h(t){this.#t.delete(t)||this.#t.add(t),this.requestUpdate()}async#d(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#l();this.run=new Z({url:e,headers:s,reads:this.#a},this.#r),this.isFollowing=this.#o,this.run.isRows&&!this.#o&&this.endpoint.controls.has("_explain")&&this.#p(this.run),await this.#u(this.run,this.run.start())}async#p(t){t.expected=await Ze(t.asked),this.#r()}async#u(t,e){if(t.limit=dt[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t!==this.run)return;let{total:s}=t.rows;this.said=`${as[t.state]}, ${g(s)} ${X(s,"row")}. ${t.problem?.detail??t.why}`}#m(t){this.querySelector("form button.run")?.focus(),this.#u(t,t.resume())}#f(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=dt[this.speed]??0)}#w(){this.isPaused=!this.isPaused,this.#s=this.run?.rows.total??0}async#$(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{name:t,summary:e,needsToken:s,hasPage:n}=this.endpoint;return l`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${sr(t)}</h1>
        <span class="grow"></span>
        ${n?l`<button class="quiet" @click=${this.#P}>Open as a page</button>`:u}
        <button class="quiet" @click=${()=>this.#$("Link",location.href)}>Copy link</button>
      </header>
      ${e?l`<p class="summary">${e}</p>`:u}
      ${s&&!E()?l`<p class="note">This endpoint needs a token. Enter yours at the top of the page.</p>`:u}
      ${this.#b()} ${this.run?this.#v(this.run):u} ${this.#k()}
      ${this.#E()} ${this.#A()} ${this.#T()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#b(){let{params:t,formats:e,controls:s}=this.endpoint,n=this.run?.isRunning??!1;return l`<form class="card" @submit=${this.#d}>
      ${t.length?l`<div class="fields">${De(t,i=>i.name,i=>this.#y(i))}</div>`:l`<p class="quiet">This endpoint has no parameters.</p>`}
      <div class="actions">
        ${e.length>1?l`<label class="inline"
              ><span>Format</span>
              <select @change=${i=>this.#c("_format",i.target.value)}>
                ${e.map(i=>l`<option value=${i} ?selected=${i===this.#i}>
                    ${tr[i]??i}
                  </option>`)}
              </select></label
            >`:u}
        ${s.has("_follow")?l`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${lt(this.#o)}
                @change=${i=>this.#c("_follow",i.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:u}
        <span class="grow"></span>
        <button
          type=${n?"button":"submit"}
          class=${n?"stop":"run"}
          @click=${()=>n&&this.run?.cancel()}
        >
          ${n?"Cancel":"Run"}
        </button>
        <button type="button" @click=${this.#C} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#y(t){let{name:e,schema:s,required:n}=t,i=`param-${e}`,o=St(t),a=this.query.get(e)??"",c=s.default===void 0||s.default===null?"":String(s.default),d=R=>{let V=R.target;V.type==="text"&&this.#t.add(e),this.#c(e,V.value)},p=ir(s,a),h=this.#t.has(e)?"text":p??"text",m=h==="text",f=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),$=f&&s.type!=="array";return l`<div class="field">
      <label for=${i}
        >${o}${n?l`<span class="required" title="required">*</span>`:u}
        <span class="type">${ot(s)}</span></label
      >
      ${$?l`<select id=${i} ?required=${n} aria-describedby="${i}-more" @change=${d}>
            <option value="" ?selected=${a===""}>${c||(n?"choose":"not given")}</option>
            ${f.map(R=>l`<option value=${String(R)} ?selected=${a===String(R)}>${R}</option>`)}
          </select>`:l`<input
            id=${i}
            type=${h}
            step=${s.format==="date-time"?"1":u}
            .value=${lt(m?a:a.replace(/Z$/,""))}
            ?required=${n}
            placeholder=${c||nr(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${i}-more"
            @input=${d}
          />`}
      <small id="${i}-more">${rr(or(t,m,c))}</small>
      ${p?l`<button type="button" class="link" @click=${()=>this.#h(e)}>
            ${m?"Use the picker":"Write as text"}<span class="spoken"> for ${o}</span>
          </button>`:u}
    </div>`}#v(t){let e=t.elapsed,{total:s}=t.rows,n=t.isRunning&&(t.expected??0)>s;return l`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${as[t.state]}</span>
        ${t.isRows?J(X(s,"row"),g(s)):u}
        ${n?J("expected by the planner",`of some ${g(t.expected)}`):u}
        ${s>=Xs?J("rows/s",g(s/e*1e3)):u}
        ${J("received",k(t.bytes))}
        ${t.resumed>0?J("resumed",`${g(t.resumed)} ×`):u}
        ${J("time",A(e))}
        ${t.firstRow===void 0?u:J("first row",A(t.firstRow))}
        <span class="grow"></span>
        ${this.#_(t)}
      </div>
      ${t.again?l`<p class="note" role="status">Trying again: ${t.again}.</p>`:u}
      ${t.why?l`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:u}
      ${t.state==="unproved"?l`<p class="note">
            We can't tell if this is the whole answer: it was compressed on its way, and its format has no record at its
            end. NDJSON has one.
          </p>`:u}
      ${t.problem?tt(t.problem):u} ${ar(t)} ${this.#x(t)}
      <div class="progress reading">${this.#R(t)}</div>
    </section>`}#_(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return l`${t.isRunning&&t.isRows?l`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#w}>
            ${this.isPaused?`Go on (${g(t.rows.total-this.#s)} new)`:"Pause"}
          </button>`:u}
      ${e?l`<button class="run" @click=${()=>this.#m(t)}>
            Resume after row ${g(t.mark.rows)}
          </button>`:u}`}#R(t){return l`${t.rows.total?l`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${lt(this.isFollowing)}
              @change=${e=>this.isFollowing=e.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:u}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${dt.length-1}
          .value=${lt(String(this.speed))}
          aria-valuetext=${ls(this.speed)}
          @input=${this.#f}
        /><output>${ls(this.speed)}</output></label
      >`}#x(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?l`<p class="empty">There are no rows.</p>`:u;let s=this.isPaused?this.#s:t.rows.total;return l`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#S}
      ></rs-table>`}if(t.asked.reads==="bytes")return l`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return u;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return l`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?u:l`<p class="quiet">This is the beginning of ${k(t.bytes)}.</p>`}`}#S(t){let{row:e,line:s}=t.detail,n=this.querySelector("dialog")??document.createElement("dialog");n.replaceChildren(),n.ariaLabel=`Row ${e}`;let i=document.createElement("h2");i.textContent=`Row ${g(e)}`;let o=document.createElement("dl");for(let[c,d]of ht(s)){let[p,h]=[document.createElement("dt"),document.createElement("dd")];[p.textContent,h.textContent]=[c,d],o.append(p,h)}let a=document.createElement("button");a.textContent="Close",a.onclick=()=>n.close(),n.append(i,o,a),this.append(n),n.showModal()}#k(){let{url:t,headers:e}=this.#l(),s=ss(t,e,this.#i,E()!==""),{name:n,text:i}=s[this.language];return l`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${s.map(({name:o},a)=>l`<button
            class="tab"
            aria-pressed=${a===this.language}
            @click=${()=>this.language=a}
          >
            ${o}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#$(n,i)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${n}>${i}</pre>
    </section>`}#g=()=>this.querySelector("form")?.reportValidity()?this.#l():void 0;#E(){return this.endpoint.controls.has("_explain")?Jt(this.endpoint.path,l`<rs-plan .request=${this.#g}></rs-plan>`):u}#A(){let{formats:t}=this.endpoint;return!t.includes("ndjson")||!t.includes("json")?u:Jt(this.endpoint.path,l`<rs-compare .request=${this.#g}></rs-compare>`)}#T(){let{columns:t}=this.endpoint;return t.length===0?u:l`<details class="card">
      <summary>${t.length} ${X(t.length,"column")}</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>l`<dt>${e}</dt><dd>${ot(s)}</dd>`)}
      </dl>
    </details>`}#P=()=>{let t=this.#g()?.url;t&&(t.searchParams.delete("_end"),t.searchParams.delete("_follow"),t.searchParams.set("_format",xt),window.open(t,"_blank","noopener"))};#C=async()=>{let t=this.#g();if(!t)return;let{url:e,headers:s}=t;e.searchParams.delete("_end"),e.searchParams.delete("_follow");let n=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",n);let i=document.createElement("a");if(i.download=`${n}.${this.#i||"txt"}`,i.href=e.href,E()||Object.keys(s).length>0){this.said="Downloading";try{let o=await _(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);i.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}i.click(),this.said=`${i.download} is downloaded by the browser`}};function er(r,t){return r.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function sr(r){return r.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?l`<em>${t}</em>`:t)}function rr(r){return r.split("`").map((t,e)=>e%2?l`<code>${t}</code>`:t)}function nr({schema:r,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return r.type==="array"?"1,2,3":r.type==="object"?"status=eq.PAID&total=gt.100":e[r.format??""]??(t?"":"not given")}function ir({format:r},t){if(r==="date"&&/^(\d{4}-\d\d-\d\d)?$/.test(t))return"date";if(r==="date-time"&&/^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?)?$/.test(t))return"datetime-local"}function or({schema:r,in:t,name:e,description:s=""},n,i){let o=[r.minimum===void 0?"":`from ${r.minimum}`,r.maximum===void 0?"":`to ${r.maximum}`],a=t==="query"?"":t==="path"?"in the path":`header ${e}`,c=i&&!n?`${i} unless given`:"",d=r.format!=="date-time"?"":n?"UTC if it has no offset":"UTC";return[s,o.filter(Boolean).join(" "),d,c,a].filter(Boolean).join(" · ")}function J(r,t){return l`<span class="fact"><b>${t}</b> <span>${r}</span></span>`}var ls=r=>dt[r]?`${k(dt[r])}/s`:"full speed";function ar(r){let t=Object.entries(r.report?.ms??{}),e=(t.length?t:r.timing).filter(([o,a])=>Zs.includes(o)&&a>=1),s=e.reduce((o,[,a])=>o+a,0),n=r.report&&r.isRunning?`The server has sent ${k(r.report.bytes)}.`:"";if(s===0)return n?l`<p class="quiet phases">${n}</p>`:u;let i=l`<div class="bar" aria-hidden="true">
    ${e.map(([o,a])=>l`<i class=${o} ${T({flexGrow:String(a/s)})}></i>`)}
  </div>`;return l`<div class="phases">
    ${e.length>1?i:u}
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([o,a])=>l`<span class="key ${o}">${o} ${A(a)}</span> `)} ${n}
    </p>
  </div>`}customElements.define("rs-endpoint",te);var lr=2e3,cr=15*6e4,hr=2*6e4,dr=5,ds="rowstream_request_duration_seconds_bucket",ut=["pool","database","encode","client"],b=[],cs=0,ur=/^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections|host_in_flight|request_duration_seconds_bucket)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;function pr(r){let t=new Map;for(let e of r.split(`
`)){let s=ur.exec(e);if(!s)continue;let[n,i,o]=[s[1],s.at(-2)??"",Number(s.at(-1))],a=t.get(n)??new Map;t.set(n,a.set(i,o))}return t}function mr({series:r},{at:t,values:e}){let s=new Map;return e.forEach((n,i)=>{let{name:o,labels:a}=r[i];n!==null&&s.set(o,(s.get(o)??new Map).set(a,n))}),{at:t,isWhole:!1,metrics:s}}function hs(r){let t=b.at(-1)?.at??0;b.at(-1)?.metrics.delete(ds),b.push(...r.filter(({at:e})=>e>t)),b=b.filter(({at:e})=>e>b.at(-1).at-cr)}var P=(r,t)=>new RegExp(`(?:^|,)${t}="((?:[^"\\\\]|\\\\.)*)"`).exec(r)?.[1]??"";function G(r,t,e=()=>!0){let s=0;for(let[n,i]of r.metrics.get(t)??[])e(n)&&(s+=i);return s}function Lt(r,t,e=()=>!0){let s=b[r],n=b.slice(Math.max(0,r-dr),r).find(e)??s,i=(s.at-n.at)/1e3;return i>0?Math.max(0,t(s)-t(n))/i:0}var ee=class extends y{static{this.properties={failure:{state:!0},refused:{state:!0},streams:{state:!0}}}#t=0;#e=!1;createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#s().then(()=>this.#n()),this.#t=setInterval(()=>{this.#n()},lr)}disconnectedCallback(){super.disconnectedCallback(),clearInterval(this.#t)}async#s(){this.#e=!0;let t=await at(`history?after=${b.at(-1)?.at??0}`).catch(()=>{});t&&(cs=t.now-Date.now(),hs(t.moments.map(e=>mr(t,e)))),this.#e=!1}async#n(){if(!this.#e){this.#e=!0;try{let t=await _(new URL("metrics",S),{headers:{Accept:"text/plain"}});if(!t.ok){this.failure=await C(t);return}let e=pr(await t.text());hs([{at:Date.now()+cs,isWhole:!0,metrics:e}]),this.streams=await at("streams").catch(()=>{}),this.failure=void 0}catch(t){this.failure={title:"The server cannot be reached",detail:String(t)}}finally{this.#e=!1}this.requestUpdate()}}async#r(t){let e=await _(new URL(`streams/${t}`,S),{method:"DELETE"}),s=e.ok||e.status===404||e.status===409;this.refused=s?void 0:await C(e),await this.#n(),await this.updateComplete,Rt()}render(){return l`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">The last 15 minutes, and now; asked for every two seconds.</p>
      ${this.failure?this.#i(this.failure):u} ${b.length?this.#a():u}
      ${this.refused?this.#i(this.refused):u}
      ${this.streams?.streams.length?this.#o(this.streams):u}
    </article>`}#i({status:t,title:e,detail:s}){let n=t===404?"With `admin_listen` this view works at that port only.":t===401||t===403?"Enter a token that [admin] names in rowstream.toml.":"";return l`<div class="card problem" role="alert">
      <h2>${t?l`<span>${t}</span>`:u} ${e}</h2>
      <p>${s}</p>
      <p class="hint">${n}</p>
    </div>`}#o({streams:t,more:e}){return l`<section class="card live" aria-label="Each stream in flight" tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Format</th>
            <th scope="col" class="number">Runs for</th>
            <th scope="col" class="number">Rows</th>
            <th scope="col" class="number">Sent</th>
            <th scope="col">Where the time went</th>
            <th scope="col"><span class="quiet">Stop</span></th>
          </tr>
        </thead>
        <tbody>
          ${t.map(({id:s,endpoint:n,format:i,started:o,rows:a,bytes:c,ms:d})=>l`<tr>
              <th scope="row">${n}</th>
              <td>${i}</td>
              <td class="number">${A(Math.max(0,Date.now()-Date.parse(o)))}</td>
              <td class="number">${g(a)}</td>
              <td class="number">${k(c)}</td>
              <td>${us(ut.map(p=>(d[p]??0)/1e3))}</td>
              <td>
                <button class="stop" aria-label="Stop the stream ${s} of ${n}" @click=${()=>this.#r(s)}>
                  Stop
                </button>
              </td>
            </tr>`)}
        </tbody>
      </table>
      ${e?l`<p class="quiet">and ${g(e)} more</p>`:u}
    </section>`}#a(){let t=b.at(-1),e=d=>P(d,"endpoint")!=="/_rowstream/",s=d=>e(d)&&P(d,"outcome")==="complete",n=d=>e(d)&&P(d,"outcome")!=="complete",i=(d,p=e)=>h=>Lt(h,m=>G(m,d,p)),o=d=>p=>G(b[p],d),a=d=>Lt(d,p=>G(p,"process_cpu_seconds_total"))*100,c=G(t,"rowstream_permits_max");return l`<div class="charts">
        ${q("Streams in flight",o("rowstream_streams_running"),g,`of ${g(c)} at most`)}
        ${q("Rows per second",i("rowstream_rows_total"),g)}
        ${q("Sent per second",i("rowstream_sent_bytes_total"),k)}
        ${q("Requests per second",i("rowstream_requests_total",s),re,"that were complete")}
        ${q("Incomplete per second",i("rowstream_requests_total",n),re,"failed, cancelled or cut")}
        ${q("Memory",o("process_resident_memory_bytes"),k,"resident")}
        ${q("Processor",a,d=>`${d.toFixed(0)} %`,"of one core")}
        ${se(t,"rowstream_pool_used").map(gr)} ${se(t,"rowstream_host_in_flight").map(fr)}
      </div>
      ${br(t)}`}},se=(r,t)=>[...r.metrics.get(t)?.keys()??[]];function fr(r){let t=e=>b[e].metrics.get("rowstream_host_in_flight")?.get(r)??0;return q(`Host ${P(r,"host")}`,t,g,`in flight, of ${P(r,"source")}`)}function gr(r){let t=(n,i=b.length-1)=>b[i].metrics.get(n)?.get(r)??0,e=t("rowstream_pool_waiting"),s=`of ${t("rowstream_pool_max")}, ${e} waiting`;return q(`Pool of ${P(r,"source")}`,n=>t("rowstream_pool_used",n),g,s)}var re=r=>r<10?r.toFixed(1):g(r);function q(r,t,e,s=""){let n=b.map((h,m)=>t(m)),i=Math.max(...n,1e-9),o=b.at(-1).at,a=Math.max(hr,o-b[0].at),c=h=>(200-200*(o-b[h].at)/a).toFixed(1),d=n.map((h,m)=>`${c(m)},${(46-h/i*42).toFixed(1)}`),p=`${c(0)},48 ${d.join(" ")} 200,48`;return l`<section class="card chart" aria-label=${r}>
    <h2>${r}</h2>
    <p><b>${e(n.at(-1)??0)}</b> <span class="quiet">${s}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${e(i)}">
      ${xe`<polygon points=${p}></polygon><polyline points=${d.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${e(Math.max(...n))}</p>
  </section>`}function wr(r,t){let e=[...r.metrics.get(ds)??[]].filter(([n])=>P(n,"endpoint")===t).map(([n,i])=>({bound:Number(P(n,"le").replace("+Inf","Infinity")),count:i})).sort((n,i)=>n.bound-i.bound),s=e.at(-1)?.count??0;return s?e.find(({count:n})=>n>=.95*s)?.bound:void 0}var $r=r=>r===void 0?"":r===1/0?"longer":A(r*1e3);function br(r){let t=se(r,"rowstream_streams_running"),e=b.length-1,s=i=>i.isWhole,n=t.map(i=>{let o=P(i,"endpoint"),a=h=>P(h,"endpoint")===o,c=h=>Lt(e,m=>G(m,h,a),s),d=h=>m=>a(m)&&P(m,"phase")===h,p=ut.map(h=>Lt(e,m=>G(m,"rowstream_phase_seconds_total",d(h)),s));return{path:o,running:G(r,"rowstream_streams_running",a),of:c,phases:p,most:wr(r,o)}});return n.sort((i,o)=>(o.most??-1)-(i.most??-1)),l`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col" class="number">95 % within</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${n.map(({path:i,running:o,of:a,phases:c,most:d})=>l`<tr>
            <th scope="row"><a href="#/endpoints${i}">${i}</a></th>
            <td class="number">${g(o)}</td>
            <td class="number">${re(a("rowstream_requests_total"))}</td>
            <td class="number">${g(a("rowstream_rows_total"))}</td>
            <td class="number">${$r(d)}</td>
            <td>${us(c)}</td>
          </tr>`)}
      </tbody>
    </table>
    <p class="quiet">${ut.map(i=>l`<span class="key ${i}">${i}</span>`)}</p>
  </section>`}function us(r){let t=r.reduce((s,n)=>s+n,0);if(t===0)return u;let e=r.map((s,n)=>`${ut[n]} ${A(s*1e3)}`).join(", ");return l`<div class="bar" role="img" aria-label=${e}>
    ${r.map((s,n)=>l`<i class=${ut[n]} ${T({flexGrow:String(s/t)})}></i>`)}
  </div>`}customElements.define("rs-live",ee);var ps="rowstream.theme",ne=12,ie=["auto","light","dark"],oe=class extends y{constructor(){super();this.takesTokens=!1;this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(ps)??"auto",this.#t(),this.#r(),addEventListener("hashchange",()=>{this.#t(),this.updateComplete.then(Rt)}),this.#e()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=Wt(e)||"/endpoints",this.requestUpdate()}async#e(){try{let e=await at("openapi.json");this.takesTokens=Ce(e),this.endpoints=Oe(e),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#s(){return this.endpoints?.find(({name:e})=>this.path===`/endpoints${e}`)}#n(){this.theme=ie[(ie.indexOf(this.theme)+1)%ie.length],localStorage.setItem(ps,this.theme),this.#r()}#r(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#s;document.title=e?`${e.name} · Rowstream`:"Rowstream console"}render(){let e=this.#s;return l`<a class="skip" href="#main" @click=${this.#m}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${yr} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path==="/live"?u:"page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path==="/live"?"page":u}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#n}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#d}>${this.#l()}</button>
      </header>
      ${this.path==="/live"?l`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`:l`<div class="page ${e?"has-chosen":""}">
            <nav aria-label="Endpoints">${this.#i()}</nav>
            <main id="main" tabindex="-1">
              ${e?l`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#c()}
            </main>
          </div>`}
      ${this.#p()}`}#i(){if(this.failure)return l`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#e()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({name:n,summary:i})=>e.every(o=>`${n} ${i}`.toLowerCase().includes(o)));return l`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${n=>this.search=n.target.value}
      />
      <ul>
        ${s.map(({path:n,name:i,summary:o,needsToken:a})=>l`<li>
            <a href="#/endpoints${n}" aria-current=${this.path===`/endpoints${i}`?"page":u}>
              <code>${i}</code>${a?l`<span class="lock" title="needs a token">token</span>`:u}
              ${o?l`<small title=${o}>${o}</small>`:u}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?this.#o():u}
      ${this.endpoints&&this.takesTokens&&!this.#a?l`<p class="quiet">
            ${E()?"Your token opens no endpoint: it may be wrong, or have expired.":"Endpoints that need a token are listed once you have entered one."}
          </p>
          <button class="run" @click=${this.#d}>Enter a token</button>`:u}`}#o(){return l`<p class="quiet">
      ${this.search?"No endpoint has these words in its path or summary.":this.takesTokens?"No endpoint is open to everybody.":"This server has no endpoints."}
    </p>`}get#a(){return E()!==""&&(this.endpoints??[]).some(({needsToken:e})=>e)}#l(){return E()?!this.endpoints||this.#a?"Token ✓":"Token ✗":"Token"}#c(){let e=this.endpoints&&this.path!=="/endpoints";return l`<div class="welcome">
      <h1>${e?"There is no such endpoint":"Try an endpoint"}</h1>
      ${e?l`<p>It may need a token, or it may be gone. Choose another one.</p>`:l`<ol>
            <li>Choose an endpoint.</li>
            <li>Fill in its parameters and press <b>Run</b>. Rows appear as the database sends them.</li>
            <li>Copy the same request for curl, JavaScript or Python.</li>
          </ol>`}
      ${this.endpoints?.length?this.#h(this.endpoints):u}
    </div>`}#h(e){return l`<ul class="offers">
        ${e.slice(0,ne).map(({path:s,name:n,summary:i,params:o})=>l`<li>
            <a class="card" href="#/endpoints${s}">
              <code>${n}</code>
              <span>${i}</span>
              <small>${o.map(St).join(", ")}</small>
            </a>
          </li>`)}
      </ul>
      ${e.length>ne?l`<p>The list has ${e.length-ne} more.</p>`:u}`}#d(){this.querySelector("dialog.token").showModal()}#p(){return l`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#u}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${E()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#u(e){e.preventDefault(),Ue(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#e(),this.requestUpdate()}#m(e){e.preventDefault(),this.querySelector("main").focus()}},yr=l`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",oe);
/*! Bundled license information:

@lit/reactive-element/css-tag.js:
  (**
   * @license
   * Copyright 2019 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

@lit/reactive-element/reactive-element.js:
lit-html/lit-html.js:
lit-element/lit-element.js:
lit-html/directive.js:
lit-html/directives/repeat.js:
  (**
   * @license
   * Copyright 2017 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/is-server.js:
  (**
   * @license
   * Copyright 2022 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directive-helpers.js:
lit-html/directives/live.js:
  (**
   * @license
   * Copyright 2020 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directives/keyed.js:
  (**
   * @license
   * Copyright 2021 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)
*/
