"""The language of a text, recognized by its script and its function words, and the stems of its words."""

import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Final

from py_rust_stemmers import SnowballStemmer  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

ENGLISH: Final = "english"
"""The language of texts in which nothing points at another one."""

FUNCTION_WORDS: Final = {
    ENGLISH: """a about above after again against all also am an and any are as at be because been before being below
        between both but by can could d did do does doing down during each few for from further had has have having
        he her here hers herself him himself his how i if in into is it its itself just ll m me more most must my
        myself no nor not now of off on once only or other our ours ourselves out over own re s same shall she should
        so some such t than that the their theirs them themselves then there these they this those through to too
        under until up ve very was we were what when where which while who whom whose why with would y you your yours
        yourself yourselves""",
    "danish": """af alle at blev da de dem den denne der deres det dette dig din dog du efter eller en er et for fra
        ham han hans har havde hende her hun hvad hvem hvis hvor hvornar i ikke ind jeg jer kan man med meget men mig
        min mod nar nogen nogle nu og om op os over pa sa sadan selv sig sin skal skulle som til ud under var vi vil
        ville vor""",
    "dutch": """aan al als bij dan dat de der deze die dit doch doen door dus een en er ge geen had heb hebben heeft
        hem het hier hij hoe hun ik in is ja je kan kon maar me meer men met mij mijn moet na naar niet niets nog nu
        of om omdat onder ons ook op over reeds te tegen toch toen tot u uit uw van veel voor waar wanneer want waren
        was wat welke werd wie wij wil worden zal ze zelf zich zij zijn zo zonder zou""",
    "finnish": """ei eivat ela en ette etta han hanen he heidan ja jo joka jos jotka kanssa keta koska kuin kuka kun
        me mika milloin mina minun missa mista mita mutta myos ne niin niita nyt oli olen olet olimme olisi
        olivat olla on ovat se sen siella siina sina sita te tai tama tassa tata tuo vaan vai vain vaikka voi""",
    "french": """ai ainsi alors au aussi aux avait avec c ce ces cet cette chez comme d dans de des donc du elle
        elles en est et etait ete etre eu fait ils il j je l la le les leur leurs lui m ma mais me meme mes moi mon n
        ne nos notre nous on ou ont par pas pour qu quand que quel quelle quelles quels qui s sa sans se ses si son
        sont sur t ta te tes toi ton tu un une vos votre vous y""",
    "german": """aber alle als also am an auch auf aus bei bin bis bist da damit das dass dein dem den denn der des
        dich die dies diese dieser dir doch dort du durch ein eine einem einen einer eines er es fur hat hatte hatten
        ich ihm ihn ihnen ihr ihre im in ist ja kann kein keine man mein mich mir mit nach nicht nichts noch nun nur
        ob oder ohne sehr sein seine sich sie sind so uber um und uns unser unter vom von vor wann war waren warum
        was weil welche wenn wer werden wie wieder will wir wird wo zu zum zur""",
    "hungarian": """a abban ahogy aki akkor ala alatt amely ami annak arra az azert azok azonban azt be csak de ebben
        egy egyik el ennek erre es ez ezek ezert ezt fel hogy hol ide igen ill is itt jol kell ki kozott le lehet
        lenne lesz ma majd meg melyik mert mi miert mig mikor mint mit nagyon ne nekem nem nincs o ok ott pedig sem
        sok szamara szerint ugy van vagy vagyok volt""",
    "italian": """a ad agli ai al alla alle anche c che chi ci come con cosa da dai dal dalla dalle degli dei del
        della delle di dove e ed era gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me mi mia mio ne
        negli nei nel nella noi non nostro o per perche piu quale quando quello questa questo se sei si sia sono su
        sua sul sulla suo ti tra tu tuo un una uno vi voi""",
    "norwegian": """alle at av bare ble da de deg dem den der deres det dette din du eller en er et etter for fordi
        fra ha hadde han hans har hennes her hun hva hvem hvis hvor hvorfor i ikke inn jeg kan kunne man med meg
        meget mellom men min mot na nar noe noen og om opp oss over pa sa seg selv sin sitt skal skulle som til ut
        var ved vi vil ville vart""",
    "portuguese": """a ao aos as ate com como da das de dela dele deles depois do dos e ela elas ele eles em entre
        era essa esse esta estao este eu foi foram ha isso ja lhe mais mas me mesmo meu minha muito na nao nas nem no
        nos nossa nosso num numa o onde os ou para pela pelo por porque qual quando que quem sao se sem ser seu seus
        so sua suas tambem te tem teu tu um uma voce voces""",
    "romanian": """acea aceasta acest acesta al ale am ar are as asa atunci au ca cand care ce cei cel cele cine cu
        cum da daca dar de decat deci din dintre doar dupa ea ei el ele era este eu fi fost iar ii il imi in intre
        isi la le lui ma mai mea meu mi ne nici noi nu o or pe pentru prin sa sau se si spre sub sunt te tu un una
        unde unei unui va voi vor""",
    "spanish": """a al algo ante antes como con contra cual cuando de del desde donde dos e el ella ellas ellos en
        entre era es esa ese eso esta estan este esto estos fue ha hay han hasta he la las le les lo los mas me mi
        mis mucho muy nada ni no nos nosotros o os para pero por porque que quien se sea ser si sin sobre son soy su
        sus tambien te tiene todo tu tus un una unos y ya yo""",
    "swedish": """alla allt att av blev bli da de dem den denna deras dess det detta dig din dina du efter ej eller
        en er ett fran for ha hade han hans har henne hennes hon honom hur har i icke ingen inom inte jag ju kan
        kunde man med mellan men mig min mina mot mycket nar nagon nagot nu och om oss pa sa sadan sedan sig sin
        skulle som till under upp ut utan vad var vara vart vem vi vid vilken""",
    "turkish": """acaba ama aslinda az bana bazi belki ben beni benim bir biri biz bizim bu buna bunu burada cok
        cunku da daha de defa degil diye eger en gibi hem hep hepsi her hic icin ile ise kez ki kim mi mu mı nasil ne
        neden nerede niye o olan olarak oldu onu onun sana sen seni senin siz sizin su sunu tum ve veya ya yani""",
    "russian": """а без более был была были было быть в вам вас весь во вот все всего вы где да даже для до его ее
        если есть еще же за здесь и из или им их к как какая какои ко когда кто ли либо мне может мы на надо наш не
        него нее нет ни них но ну о об однако он она они оно от очень по под при с со так также такои там те тем то
        того тоже тои только том ты у уже хотя чего чеи чем что чтобы чье эта эти это я""",
    "greek": """αλλα αν αντι απο αυτα αυτη αυτο αυτοι αυτος αυτου για δε δεν ειμαι ειναι εισαι εκεινη εκεινο εκεινος
        ενα ενας ενω επι εχει εχω η ηταν θα και κατα κι μα με μετα μη μην μια μου να ο οι ομως οπως οσο οτι ου παρα
        ποια ποιο ποιος που προς πως σας σε στη στην στο στον στους τα την της τι τις το τον του τους των ως""",
    "arabic": """الا التي الذي الى ان انا انت او اي اين بعد بين تحت ثم حتى حول حيث خلال ذلك سوف عن عند على عليه غير
        في فيه قبل قد كان كانت كل كم كيف لا لكن لم لماذا له لها ليس ما متى مع من منذ نحن نعم هذا هذه هل هم هنا هو هي
        و وهو""",
    "tamil": "",
}
"""The most frequent words of each language that has a stemmer, folded as `words` folds them."""

_STOP: Final = {language: frozenset(listed.split()) for language, listed in FUNCTION_WORDS.items()}
_SCRIPTS: Final = {
    "russian": re.compile(r"[\u0400-\u04ff]"),
    "greek": re.compile(r"[\u0370-\u03ff]"),
    "arabic": re.compile(r"[\u0600-\u06ff]"),
    "tamil": re.compile(r"[\u0b80-\u0bff]"),
}
_LATIN: Final = [language for language in _STOP if language not in _SCRIPTS]
_LOOKED_AT: Final = 400
"""The words at the beginning of a text that tell its language."""
_STEMS: Final[dict[str, Callable[[str], str]]] = {
    language: SnowballStemmer(language).stem_word  # pyright: ignore[reportUnknownMemberType]
    for language in _STOP
}


def language_of(words: Collection[str]) -> str:
    """Return the language of a text by its folded words."""
    some = frozenset(list(words)[:_LOOKED_AT])
    if not some:
        return ENGLISH
    if not all(map(str.isascii, some)):
        joined = "".join(some)
        for language, script in _SCRIPTS.items():
            if len(script.findall(joined)) * 2 > len(joined):
                return language
    counts = {language: len(some & _STOP[language]) for language in _LATIN}
    # One word is not enough, because the languages share some, and names look like others.
    counts[ENGLISH] = max(counts[ENGLISH], 1)
    return max(counts, key=counts.__getitem__)


def content_words(words: Iterable[str], language: str) -> list[str]:
    """Return the words without function words, or all of them if there are no others."""
    listed = list(words)
    return [word for word in listed if word not in _STOP[language]] or listed


@lru_cache(maxsize=65_536)
def stem(word: str, language: str) -> str:
    """Return the stem of a word. Words with digits or signs are their own stems."""
    return _STEMS[language](word) if word.isalpha() else word
